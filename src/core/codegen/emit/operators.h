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

// Divisions and remainders (kFmod, kFloorMod, kTruncDiv, kFloorDiv).

// For integers. No divisor traps: zero gives an arbitrary result, -1 wraps.
llvm::Value* divide_integers(Ir& b, loop::Op op, llvm::Value* x, llvm::Value* y, DType dtype);

// For floats, except kFmod.
llvm::Value* divide_floats(Ir& b, const target::Target& target, loop::Op op, llvm::Value* x, llvm::Value* y);

// Divides lanes of f32 by one f32, whose reciprocal can be hoisted out of a loop. The product of doubles rounds to the
// same f32 as a division: the quotient of two floats is at least 2^-49 (relative) away from the midpoint of two floats,
// unless it is no normal number.
llvm::Value* divide_by_scalar(Ir& b, llvm::Value* x, llvm::Value* y);

}  // namespace npugraph::codegen
