// SPDX-License-Identifier: Apache-2.0
// The pieces of generated matrix products, as the driver calls them: tiles (tile_shape.h), and functions that pack
// their panels and rows.
#pragma once

#include <cstdint>

#include <llvm/IR/IRBuilder.h>

#include "codegen/matmul/copy.h"
#include "codegen/matmul/tile_shape.h"
#include "tensor/dtype.h"

namespace npugraph::codegen {

// Packs a whole panel from a matrix with contiguous rows: row after row, as f32, or pairs of rows of bf16, interleaved
// element by element. row_stride is in bytes.
using InterleaveFunction = void(const void* rows, int64_t row_stride, int64_t steps, void* panel);

// to[c][r] = from[r][c] for elements of 4 bytes: packs rows into a panel, and transposes tiles. Strides are in bytes,
// from row to row. `columns` is a multiple of lanes. `rows` is at least 1; rows of `to` are written up to a multiple of
// lanes, with arbitrary elements from `rows` on.
using TransposeFunction = void(const void* from, int64_t from_stride, int64_t rows, int64_t columns, void* to,
                               int64_t to_stride);

// Copies whole cuts (kCutBytes) of the rows of a tile to dense rows; rows from `count` on repeat the last one.
using CopyTileRowsFunction = void(const void* rows, int64_t row_stride, int64_t count, int64_t cuts, void* to);

llvm::FunctionType* tile_type(llvm::LLVMContext& context);
llvm::FunctionType* interleave_type(llvm::LLVMContext& context);
llvm::FunctionType* transpose_type(llvm::LLVMContext& context);

// Fill in the body of a function of that type.
void emit_tile(llvm::Function* function, const target::Target& target, TileKind kind, const TileShape& shape);
void emit_interleave(llvm::Function* function, TileKind kind, DType from, const TileShape& shape);
void emit_transpose(llvm::Function* function, const TileShape& shape);
void emit_copy_tile_rows(llvm::Function* function, const TileShape& shape);
void emit_widen(llvm::Function* function, DType from, DType to, int lanes);

}  // namespace npugraph::codegen
