// SPDX-License-Identifier: Apache-2.0
// The operators of kernels on values: all scalars or all vectors of the same lanes.
#pragma once

#include <span>

#include "codegen/emit/vectors.h"
#include "loop/kernel.h"

namespace npugraph::codegen {

// The value of an operator that is no leaf. `from` is the type of the first argument, `to` of the result. Integer division
// by zero gives anything; callers check before.
llvm::Value* emit_operator(Ir& b, const target::Target& target, loop::Op op, llvm::ArrayRef<llvm::Value*> args,
                           DType from, DType to);

// Whether `op` raises on a zero divisor of this type.
bool divides_integers(loop::Op op, DType dtype);

// kMin and kMax of floats: NaN if either is.
llvm::Value* emit_extreme(Ir& b, bool smaller, llvm::Value* x, llvm::Value* y, DType dtype);

// A constant of kernel, as Let::number.
llvm::Value* emit_constant(Ir& b, const target::Target& target, const Scalar& value, DType dtype);

}  // namespace npugraph::codegen
