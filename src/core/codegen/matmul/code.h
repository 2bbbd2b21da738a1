// SPDX-License-Identifier: Apache-2.0
// Machine code of the pieces of matrix products: made on first use, shared by all products of the process and, except
// for epilogues, kept as long as it lives. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>

#include <llvm/IR/IRBuilder.h>

#include "codegen/jit/jit.h"
#include "codegen/matmul/matmul.h"
#include "codegen/matmul/matvec.h"
#include "codegen/matmul/tile.h"

namespace npugraph::codegen {

// The end of a matrix product: from sums in f32 to the elements of C.

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

TileFunction* tile_code(const target::Target& target, TileKind kind, const TileShape& shape);
InterleaveFunction* interleave_code(const target::Target& target, TileKind kind, DType from);
TransposeFunction* transpose_code(const target::Target& target);
CopyTileRowsFunction* copy_tile_rows_code(const target::Target& target, const TileShape& shape);
// Null if the types are equal.
WidenFunction* widen_code(const target::Target& target, DType from, DType to);
RowsMatvecFunction* rows_matvec_code(const target::Target& target, MatvecKind kind, int vectors);
ColumnsMatvecFunction* columns_matvec_code(const target::Target& target, MatvecKind kind, int vectors);
StoreSumsFunction* store_sums_code(const target::Target& target, DType c);

// The epilogue of a product, which lives as long as the tasks that use it. Epilogues of equal text share it.
struct EpilogueCode {
  std::shared_ptr<const MachineCode> code;
  EpilogueFunction* function = nullptr;
};
std::shared_ptr<const EpilogueCode> epilogue_code(const target::Target& target, const loop::Kernel& epilogue,
                                                  DType sums = DType::kF32);

}  // namespace npugraph::codegen
