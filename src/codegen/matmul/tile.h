// SPDX-License-Identifier: Apache-2.0
// The pieces of generated matrix products, as the driver calls them: tiles (tile_shape.h), and what packs their panels and rows.
#pragma once

#include <cstdint>

#include <llvm/IR/IRBuilder.h>

#include "codegen/matmul/tile_shape.h"
#include "tensor/dtype.h"

namespace npugraph::codegen {

// Packs a panel of whole columns from a matrix that is contiguous along them: row after row of f32, or pairs of rows of bf16
// element by element. row_stride is in bytes.
using InterleaveFunction = void(const void* rows, int64_t row_stride, int64_t steps, void* panel);

// to[c][r] = from[r][c] for elements of 4 bytes: packs rows into a panel, and turns tiles around. Strides are in bytes, from
// row to row. `columns` is a multiple of lanes; rows of `to` are written up to a multiple of lanes, behind `rows` (at least 1)
// with anything.
using TransposeFunction = void(const void* from, int64_t from_stride, int64_t rows, int64_t columns, void* to,
                               int64_t to_stride);

// Copies whole cuts (kCutBytes) of the rows of a tile, dense; those from `count` on are the last one again.
using CopyTileRowsFunction = void(const void* rows, int64_t row_stride, int64_t count, int64_t cuts, void* to);

// `count` i8 that lie one after the other, as f32 or bf16, which hold them exactly.
using WidenFunction = void(const void* from, int64_t count, void* to);

llvm::FunctionType* tile_type(llvm::LLVMContext& context);
llvm::FunctionType* interleave_type(llvm::LLVMContext& context);
llvm::FunctionType* transpose_type(llvm::LLVMContext& context);

// Fill in the body of a function of that type.
void emit_tile(llvm::Function* function, TileKind kind, const TileShape& shape);
void emit_interleave(llvm::Function* function, TileKind kind, const TileShape& shape);
void emit_transpose(llvm::Function* function, const TileShape& shape);
void emit_copy_tile_rows(llvm::Function* function, const TileShape& shape);
void emit_widen(llvm::Function* function, DType to, int lanes);

}  // namespace npugraph::codegen
