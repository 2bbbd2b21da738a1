// SPDX-License-Identifier: Apache-2.0
// Mathematical functions as inline vector code. Results are at most 2 ulp from the exact result for all arguments, and
// the IEEE results for NaN, infinities, zeros and denormals. If the caller flushes denormals, they count as zeros or
// pass unchanged.
//
// f32 uses polynomials; only sin, cos and tan of |x| beyond 1e5 and fmod of quotients beyond 2^22 call libm, for the
// lanes concerned. f64 uses polynomials for exp, expm1, log, sigmoid, tanh, sinh and cosh; the others call libm for
// each lane.
//
// The results of a lane depend on the arguments of that lane alone. The code must be compiled without options that let
// LLVM fuse or reorder operations (the defaults of llvm::TargetOptions). Calls spill the registers that are live around
// them.
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/IR/IRBuilder.h>

#include "loop/kernel.h"
#include "target/target.h"

namespace npugraph::codegen {

// Whether emit_math() takes `op`: kRsqrt, kReciprocal, kExp to kErfc, kSigmoid, kPow, kAtan2 and kFmod.
bool is_math(loop::Op op);

// The value of `op` for f32 or f64, scalars or vectors of any width (that of a register is best). May leave the builder
// in another block.
llvm::Value* emit_math(llvm::IRBuilderBase& b, const target::Target& target, loop::Op op,
                       llvm::ArrayRef<llvm::Value*> args);

// A cheaper 2^x for f32 x that is NaN or at most 0, or above 0 by a rounding error. Results below the smallest normal
// number are 0, and with `short_one` results are good to 22 bits.
llvm::Value* emit_exp2_to_one(llvm::IRBuilderBase& b, const target::Target& target, llvm::Value* x, bool short_one);

}  // namespace npugraph::codegen
