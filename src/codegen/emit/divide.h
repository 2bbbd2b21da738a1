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

}  // namespace npugraph::codegen
