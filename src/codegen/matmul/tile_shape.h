// SPDX-License-Identifier: Apache-2.0
// What a tile of a generated matrix product is, and how it is called.
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

// The shape for a target, with two vectors in a step.
TileShape tile_shape(const target::Target& target, TileKind kind);
// The shape with one vector in a step.
TileShape narrow(TileShape shape);

inline constexpr int kAmxRows = 32;  // of a tile on AMX: two registers

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

}  // namespace npugraph::codegen
