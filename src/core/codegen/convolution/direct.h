// SPDX-License-Identifier: Apache-2.0
// Convolutions whose groups have few channels (depthwise ones have one), computed by their definition: each channel of
// the result is the sum over taps of a weight times a shifted piece of the image. The pieces are copied as f32, with
// the padding around them, to a buffer that stays in a cache.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include <llvm/IR/IRBuilder.h>

#include "codegen/convolution/image.h"
#include "codegen/matmul/code.h"
#include "target/target.h"

namespace npugraph::codegen {

// The part of direct and of depthwise convolutions (depthwise.h) that is machine code.

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

struct DirectPlan {
  Image image;
  DType dtype = DType::kF32;  // of the image, the weights and the bias
  int64_t batches = 0, groups = 0;
  int64_t channels_in = 0, channels_out = 0;  // of a group
  std::array<int64_t, 2> out{};               // pixels of the result
  int64_t batch_stride = 0;                   // of the image, in bytes
  bool bias = false;

  std::array<int64_t, 2> piece{};  // pixels of the result that a work item computes
  // Whether the vectors of a tile are adjacent in one row; otherwise each is in the row below the previous one.
  bool along_rows = false;
  // Floats per row of the window in each of step[1] phases. A phase holds the pixels x with the same x % step[1].
  int64_t width = 0;
  int64_t rows = 0;  // of the window
  int64_t lanes = 0;
  std::vector<int64_t> offsets;  // of taps, in bytes

  int64_t taps() const { return channels_in * image.kernel[0] * image.kernel[1]; }
  int64_t pitch() const { return image.step[1] * width; }
  int64_t pieces(size_t d) const { return (out[d] + piece[d] - 1) / piece[d]; }
  int64_t items() const { return batches * groups * pieces(0) * pieces(1); }
};

// Sets the fields that follow from the others. Returns false if windows or taps exceed the limits that
// loop::is_direct() checks.
bool complete(DirectPlan& plan, const target::Target& target);

struct DirectCode {
  DirectTileFunction* tile = nullptr;
  CopyRowsFunction* copy = nullptr;  // null if the target has none
  // Either `store` or `epilogue` is set.
  StoreSumsFunction* store = nullptr;
  EpilogueFunction* epilogue = nullptr;
};

// Buffers as for make_convolution().
void run_direct(const DirectPlan& plan, const DirectCode& code, const ng_call& call);

}  // namespace npugraph::codegen
