// SPDX-License-Identifier: Apache-2.0
// The pieces of generated matrix products, as the driver calls them: tiles, and functions that pack their panels
// and rows.
#pragma once

#include <cstdint>

#include <llvm/IR/IRBuilder.h>

#include "codegen/matmul/copy.h"
#include "target/target.h"
#include "tensor/dtype.h"

namespace npugraph::codegen {

// The tiles of generated matrix products, and how they are called.
//
// A tile is the product of `rows` rows of one operand, whose elements are broadcast in place, and a panel of the other
// one, whose vectors are loaded: acc[r][j] (+)= sum over steps s of rows[r][s] * panel[s][j]. A step is 4 bytes of each
// row and each column: one f32, or a pair of bf16 or i16 or four i8 that one instruction multiplies and adds. A panel
// is packed: the `columns()` columns of one step, then those of the next one. Panels of kU8Quads are u8, their rows i8.
// kI16Pairs is for integers of 8 bits, widened, on processors without an instruction for quads.
//
// Sums of integers are i32. That instruction takes one unsigned factor, so where both are signed, 128 is added to the
// elements of rows: acc[r][j] is too large by 128 * the sum of column j of the panel, which the caller subtracts. AMX
// has an instruction for two signed factors.

enum class TileKind : uint8_t { kF32, kBf16Pairs, kI8Quads, kU8Quads, kI16Pairs };

inline bool is_quads(TileKind kind) { return kind == TileKind::kI8Quads || kind == TileKind::kU8Quads; }
inline bool sums_integers(TileKind kind) { return is_quads(kind) || kind == TileKind::kI16Pairs; }

// AMX: the operand that is read once and kept out of the L1 cache, in which the other one stays.
enum class Passing : uint8_t { kNone, kPanel, kRows };

struct TileShape {
  int lanes = 4;    // f32 in a vector
  int vectors = 2;  // in a step of a panel
  int rows = 6;
  bool fma = false;
  bool amx = false;  // see amx_tile.h
  Passing passing = Passing::kNone;
  int fetched_rows = 6;  // rows that a tile prefetches
  int columns() const { return lanes * vectors; }
};

// The shape for a target, with two vectors in a step.
TileShape tile_shape(const target::Target& target, TileKind kind);
// The shape with one vector in a step.
TileShape narrow(TileShape shape);

inline constexpr int64_t kStepBytes = 4;  // of an element, or of the elements that are multiplied together
inline constexpr int kAmxRows = 32;       // of a tile on AMX: two registers

// Number of steps that are adjacent in rows. AMX reads cut rows faster: the first kCutSteps steps of all rows, then the
// next ones, `cut_stride` bytes further. In rows that are not cut, `cut_stride` is kCutBytes; all other tiles need such
// rows.
inline constexpr int64_t kCutSteps = 16;
inline constexpr int64_t kCutBytes = kCutSteps * kStepBytes;

// acc is [rows][columns], rows acc_stride apart, which is a multiple of 64; with `accumulate` it is added to. Strides
// are in bytes. Meanwhile memory is prefetched into the L2 cache: in steps 16 * i to 16 * i + 15, the lines at prefetch
// + i * prefetch_step + r * prefetch_stride for each r below fetched_rows. Any address is allowed. Sums of integers
// have the bits of i32.
using TileFunction = void(const void* panel, const void* rows, int64_t row_stride, int64_t cut_stride, int64_t steps,
                          float* acc, int64_t acc_stride, int64_t accumulate, const void* prefetch,
                          int64_t prefetch_stride, int64_t prefetch_step);

// Its arguments, for emitters.
struct TileArguments {
  explicit TileArguments(llvm::Function* f)
      : panel(f->getArg(0)),
        rows(f->getArg(1)),
        row_stride(f->getArg(2)),
        cut_stride(f->getArg(3)),
        steps(f->getArg(4)),
        acc(f->getArg(5)),
        acc_stride(f->getArg(6)),
        accumulate(f->getArg(7)),
        prefetch(f->getArg(8)),
        prefetch_stride(f->getArg(9)),
        prefetch_step(f->getArg(10)) {}
  llvm::Value *panel, *rows, *row_stride, *cut_stride, *steps, *acc, *acc_stride, *accumulate;
  llvm::Value *prefetch, *prefetch_stride, *prefetch_step;
};

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
