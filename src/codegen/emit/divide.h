// SPDX-License-Identifier: Apache-2.0
// Divisions and remainders (kFmod, kFloorMod, kTruncDiv, kFloorDiv).
#pragma once

#include "codegen/emit/vectors.h"
#include "loop/kernel.h"

namespace npugraph::codegen {

// Of integers. No divisor traps: zero gives anything, -1 wraps.
llvm::Value* divide_integers(Ir& b, loop::Op op, llvm::Value* x, llvm::Value* y, DType dtype);

// Of floats, but kFmod.
llvm::Value* divide_floats(Ir& b, const target::Target& target, loop::Op op, llvm::Value* x, llvm::Value* y);

// Lanes of f32 by one f32, of which the reciprocal can leave a loop around. The product of doubles is as exact as a division: the
// quotient of two floats is no further than 2^-49 from what rounds to it, unless it is no normal number.
llvm::Value* divide_by_scalar(Ir& b, llvm::Value* x, llvm::Value* y);

}  // namespace npugraph::codegen
