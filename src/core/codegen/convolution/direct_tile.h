// SPDX-License-Identifier: Apache-2.0
// The part of direct convolutions (direct.h) that is machine code.
#pragma once

#include <cstdint>

#include <llvm/IR/IRBuilder.h>

#include "target/target.h"

namespace npugraph::codegen {

inline constexpr int kDirectVectors = 7;  // of a tile; many images have 7 * 2^n pixels per dimension

// The meaning of the lanes of a vector.
enum class DirectLanes : uint8_t {
  kPixels,    // pixels of one channel: `first` and each weight are numbers
  kChannels,  // channels of one pixel: `first` and each weight are vectors
};

// Computes `kDirectVectors` vectors of sums. Vector v is first + sum over t < taps of weights[t] times the vector at
// from + offsets[t] + v * from_step. It is stored at to + v * to_step, in the order of v. All elements are f32; steps
// and offsets are in bytes.
using DirectTileFunction = void(const void* from, const int64_t* offsets, const float* weights, int64_t taps,
                                const float* first, int64_t from_step, void* to, int64_t to_step);

llvm::FunctionType* direct_tile_type(llvm::LLVMContext& context);
void emit_direct_tile(llvm::Function* function, DirectLanes lanes, const target::Target& target);

// Thread-safe; made on first use.
DirectTileFunction* direct_tile_code(const target::Target& target, DirectLanes lanes);

}  // namespace npugraph::codegen
