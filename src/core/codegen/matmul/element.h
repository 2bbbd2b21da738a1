// SPDX-License-Identifier: Apache-2.0
// Loads and stores of matrix elements as f32.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "target/target.h"
#include "tensor/dtype.h"

namespace npugraph::codegen {

// `lanes` adjacent elements of f32, bf16, f16 or i8, as <lanes x float>.
llvm::Value* load_as_f32(llvm::IRBuilderBase& b, llvm::Value* pointer, DType dtype, int lanes);

// Rounds to nearest even.
void store_f32_as(llvm::IRBuilderBase& b, llvm::Value* value, llvm::Value* pointer, DType dtype);

// x * y + sum, rounded once if `fma`.
llvm::Value* multiply_add(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Value* y, llvm::Value* sum, bool fma);

// sum + the products of pairs of bf16 in two vectors of any type of 512 bits.
llvm::Value* dot_bf16_pairs(llvm::IRBuilderBase& b, llvm::Value* x, llvm::Value* y, llvm::Value* sum);

// sum + the products of pairs of i16, which came from 8 bits. Sums are i32 and wrap. Vectors have 512, 256 or 128 bits
// on x86-64.
llvm::Value* dot_i16_pairs(llvm::IRBuilderBase& b, const target::Target& target, llvm::Value* x, llvm::Value* y,
                           llvm::Value* sum);

// sum + the products of quads of i8, of which those of x are taken as unsigned. Sums are i32 and wrap. Vectors have
// 512, 256 or 128 bits on x86-64, and a multiple of 128 bits on AArch64. Target::int8_dot is one instruction for them.
llvm::Value* dot_i8_quads(llvm::IRBuilderBase& b, const target::Target& target, llvm::Value* x, llvm::Value* y,
                          llvm::Value* sum);

}  // namespace npugraph::codegen
