// SPDX-License-Identifier: Apache-2.0
// Reductions and scans over lanes and partial results. The order of combination depends on extents alone.
#pragma once

#include "codegen/emit/vectors.h"
#include "loop/kernel.h"

namespace npugraph::codegen {

llvm::Constant* identity_of(Ir& b, loop::Combine combine, DType dtype);

llvm::Value* emit_combine(Ir& b, loop::Combine combine, DType dtype, llvm::Value* x, llvm::Value* y);

// All lanes combined, halves first; a scalar is itself.
llvm::Value* combine_lanes(Ir& b, loop::Combine combine, DType dtype, llvm::Value* value);

// Each lane combined with all lanes before it.
llvm::Value* prefix_lanes(Ir& b, loop::Combine combine, DType dtype, llvm::Value* value);

// A value and the iteration that it is from.
struct Extreme {
  llvm::Value* value;
  llvm::Value* index;  // i64
};

// The more extreme of the two (kMin or kMax; a NaN most of all), the earlier iteration where they are equal.
Extreme combine_extremes(Ir& b, loop::Combine combine, DType dtype, const Extreme& x, const Extreme& y);
Extreme combine_lanes(Ir& b, loop::Combine combine, DType dtype, Extreme extreme);

}  // namespace npugraph::codegen
