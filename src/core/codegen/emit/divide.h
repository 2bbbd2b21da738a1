// SPDX-License-Identifier: Apache-2.0
// Divisions and remainders (kFmod, kFloorMod, kTruncDiv, kFloorDiv).
#pragma once

#include "codegen/emit/vectors.h"
#include "loop/kernel.h"

namespace npugraph::codegen {

// For integers. No divisor traps: zero gives an arbitrary result, -1 wraps.
llvm::Value* divide_integers(Ir& b, loop::Op op, llvm::Value* x, llvm::Value* y, DType dtype);

// For floats, except kFmod.
llvm::Value* divide_floats(Ir& b, const target::Target& target, loop::Op op, llvm::Value* x, llvm::Value* y);

// Divides lanes of f32 by one f32, whose reciprocal can be hoisted out of a loop. The product of doubles rounds to the
// same f32 as a division: the quotient of two floats is at least 2^-49 (relative) away from the midpoint of two floats,
// unless it is no normal number.
llvm::Value* divide_by_scalar(Ir& b, llvm::Value* x, llvm::Value* y);

}  // namespace npugraph::codegen
