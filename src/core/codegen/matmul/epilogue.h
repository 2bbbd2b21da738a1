// SPDX-License-Identifier: Apache-2.0
// The end of a matrix product: from sums in f32 to the elements of C.
#pragma once

#include <cstdint>

#include <llvm/IR/IRBuilder.h>

#include "codegen/matmul/matmul.h"

namespace npugraph::codegen {

// Stores sums, whose rows are `stride` elements apart, from `to` on, where rows are `to_stride` bytes apart.
using StoreSumsFunction = void(const float* sums, int64_t stride, int64_t rows, int64_t columns, void* to,
                               int64_t to_stride);

// Runs an epilogue for the sums, f32 or the bits of i32, of the rows and columns from (row, column) on. A whole vector
// must be readable behind each row of sums.
using EpilogueFunction = void(const float* sums, int64_t stride, int64_t rows, int64_t columns, int64_t row,
                              int64_t column, void* const* data, const ng_scalar* scalars);

llvm::FunctionType* store_sums_type(llvm::LLVMContext& context);
llvm::FunctionType* epilogue_type(llvm::LLVMContext& context);

// Fill in the body of a function of that type. UserError if the kernel is not of the form that MatmulSpec asks for,
// with sums of this type.
void emit_store_sums(llvm::Function* function, DType c, int lanes);
void emit_epilogue(llvm::Function* function, const loop::Kernel& epilogue, DType sums, const target::Target& target);

}  // namespace npugraph::codegen
