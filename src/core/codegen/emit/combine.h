// SPDX-License-Identifier: Apache-2.0
// Reductions and scans over lanes and partial results. The order of combination depends on extents alone.
#pragma once

#include "codegen/emit/vectors.h"
#include "loop/kernel.h"

namespace npugraph::codegen {

llvm::Constant* identity_of(Ir& b, loop::Combine combine, DType dtype);

llvm::Value* emit_combine(Ir& b, loop::Combine combine, DType dtype, llvm::Value* x, llvm::Value* y);

// All lanes combined, halves first; a scalar stays as it is.
llvm::Value* combine_lanes(Ir& b, loop::Combine combine, DType dtype, llvm::Value* value);

// Each lane combined with all lanes before it.
llvm::Value* prefix_lanes(Ir& b, loop::Combine combine, DType dtype, llvm::Value* value);

// A value and the iteration that it comes from.
struct Extreme {
  llvm::Value* value;
  llvm::Value* index;  // i64
};

// The more extreme of the two (by kMin or kMax; NaN is the most extreme), or that of the earlier iteration if they are
// equal.
Extreme combine_extremes(Ir& b, loop::Combine combine, DType dtype, const Extreme& x, const Extreme& y);
// The same, faster, where `later` comes from a later iteration than x. x may also be the identity with index 0, which
// loses unless all elements are equal to it; then 0 is the first of them.
Extreme with_later(Ir& b, loop::Combine combine, DType dtype, const Extreme& x, const Extreme& later);
Extreme combine_lanes(Ir& b, loop::Combine combine, DType dtype, Extreme extreme);

}  // namespace npugraph::codegen
