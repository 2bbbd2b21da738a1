// SPDX-License-Identifier: Apache-2.0
// Mathematical functions as vector code in line: at most 2 ulp from the exact result for all arguments, and the IEEE results
// for NaN, infinities, zeros and denormals. Where the caller flushes denormals, they count as zeros or pass unchanged.
//
// f32 is polynomials throughout; sin, cos and tan of |x| beyond 1e5 and fmod of quotients beyond 2^22 call libm for the lanes
// concerned. f64 is polynomials for exp, expm1, log, sigmoid, tanh, sinh and cosh; the others call libm for each lane.
//
// The results of a lane depend on the arguments of that lane alone. The code must be compiled without global licence to fuse
// or reorder (llvm::TargetOptions as made); calls cost the registers that are live around them.
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/IR/IRBuilder.h>

#include "loop/kernel.h"
#include "target/target.h"

namespace npugraph::codegen {

// Whether emit_math() takes `op`: kRsqrt, kReciprocal, kExp to kErfc, kSigmoid, kPow, kAtan2 and kFmod.
bool is_math(loop::Op op);

// The value of `op`; f32 or f64, scalars or vectors of any width (best that of a register). May leave the builder in another
// block than it was in.
llvm::Value* emit_math(llvm::IRBuilderBase& b, const target::Target& target, loop::Op op,
                       llvm::ArrayRef<llvm::Value*> args);

// 2^x for f32 x up to 0 (rounding may leave a little more), or NaN, of which less is computed: what would be no normal number
// is 0, and a `short_one` is good to 22 bits.
llvm::Value* emit_exp2_to_one(llvm::IRBuilderBase& b, const target::Target& target, llvm::Value* x, bool short_one);

}  // namespace npugraph::codegen
