// SPDX-License-Identifier: Apache-2.0
// The pieces of generated matrix products, as the driver calls them.
//
// A tile is the product of `rows` rows of one operand, whose elements are broadcast from where they lie, and a panel of the
// other one, whose vectors are loaded: acc[r][j] (+)= sum over steps s of rows[r][s] * panel[s][j]. A step is 4 bytes of each
// row and each column: one f32, or a pair of bf16 or four i8 that one instruction multiplies and adds. A panel is packed:
// `columns()` columns of one step beside each other, then the next step.
//
// Sums of i8 are i32. That instruction takes one factor without sign, so the elements of rows are 128 larger: acc[r][j] is too
// large by 128 * the sum of column j of the panel, which whoever calls takes off. AMX has one for two factors with sign.
#pragma once

#include <cstdint>

#include <llvm/IR/IRBuilder.h>

#include "target/target.h"
#include "tensor/dtype.h"

namespace npugraph::codegen {

enum class TileKind : uint8_t { kF32, kBf16Pairs, kI8Quads };

// AMX: the operand that is read once while the other one stays in the first cache, which it is kept out of.
enum class Passing : uint8_t { kNone, kPanel, kRows };

struct TileShape {
  int lanes = 4;    // f32 in a vector
  int vectors = 2;  // in a step of a panel
  int rows = 6;
  bool fma = false;
  bool amx = false;  // as amx_tile.h says
  Passing passing = Passing::kNone;
  int fetched_rows = 6;  // of those that come next, by a tile
  int columns() const { return lanes * vectors; }
};

// Of the target: two vectors a step.
TileShape tile_shape(const target::Target& target, TileKind kind);
TileShape narrow(TileShape shape);

// Steps that lie one after the other in rows. AMX reads rows faster that are cut: those of all rows first, then the next ones,
// `cut_stride` bytes behind. It is kCutBytes where rows are whole, as all others need them.
inline constexpr int64_t kCutSteps = 16;
inline constexpr int64_t kCutBytes = kCutSteps * 4;

// acc is [rows][columns], dense; with `accumulate` it is added to. Strides are in bytes. Meanwhile what comes next is fetched
// into the second cache: in steps 16 * i to 16 * i + 15, the lines at prefetch + i * prefetch_step + r * prefetch_stride for
// each r below fetched_rows. Any address will do. Sums of i8 have the bits of i32.
using TileFunction = void(const void* panel, const void* rows, int64_t row_stride, int64_t cut_stride, int64_t steps,
                          float* acc, int64_t accumulate, const void* prefetch, int64_t prefetch_stride,
                          int64_t prefetch_step);

// Its arguments, for emitters.
struct TileArguments {
  explicit TileArguments(llvm::Function* f)
      : panel(f->getArg(0)),
        rows(f->getArg(1)),
        row_stride(f->getArg(2)),
        cut_stride(f->getArg(3)),
        steps(f->getArg(4)),
        acc(f->getArg(5)),
        accumulate(f->getArg(6)),
        prefetch(f->getArg(7)),
        prefetch_stride(f->getArg(8)),
        prefetch_step(f->getArg(9)) {}
  llvm::Value *panel, *rows, *row_stride, *cut_stride, *steps, *acc, *accumulate;
  llvm::Value *prefetch, *prefetch_stride, *prefetch_step;
};

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
