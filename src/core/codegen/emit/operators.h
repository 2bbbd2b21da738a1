// SPDX-License-Identifier: Apache-2.0
// The operators of kernels. Their arguments are all scalars, or all vectors with the same number of lanes.
#pragma once

#include <span>

#include "codegen/emit/vectors.h"
#include "loop/kernel.h"

namespace npugraph::codegen {

// The value of an operator that is no leaf. `from` is the type of the first argument, `to` of the result. Integer
// division by zero gives an arbitrary result; callers check for it first.
llvm::Value* emit_operator(Ir& b, const target::Target& target, loop::Op op, llvm::ArrayRef<llvm::Value*> args,
                           DType from, DType to);

// Integers without a sign, and bool.
bool is_unsigned(DType dtype);

// Whether `op` raises on a zero divisor of this type.
bool divides_integers(loop::Op op, DType dtype);

// kMin or kMax; of floats, NaN if either is NaN.
llvm::Value* emit_extreme(Ir& b, bool smaller, llvm::Value* x, llvm::Value* y, DType dtype);

// A constant of a kernel, as in Let::number.
llvm::Value* emit_constant(Ir& b, const target::Target& target, const Scalar& value, DType dtype);

}  // namespace npugraph::codegen
