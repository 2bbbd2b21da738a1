// SPDX-License-Identifier: Apache-2.0
// Machine code of the pieces of matrix products: made on first use, shared by all products of the process. Thread-safe.
#pragma once

#include "codegen/matmul_epilogue.h"
#include "codegen/matmul_tile.h"
#include "codegen/matvec.h"

namespace npugraph::codegen {

// What brings elements into the order of a tile and back.
struct MoveCode {
  PackFunction* pack = nullptr;
  InterleaveFunction* interleave = nullptr;
  TransposeFunction* transpose = nullptr;
};

TileFunction* tile_code(const target::Target& target, TileKind kind, bool narrow);
MoveCode move_code(const target::Target& target, TileKind kind);
RowsMatvecFunction* rows_matvec_code(const target::Target& target, MatvecKind kind, int vectors);
ColumnsMatvecFunction* columns_matvec_code(const target::Target& target, MatvecKind kind, int vectors);
EpilogueFunction* epilogue_code(const target::Target& target, const Epilogue& epilogue, DType c);

}  // namespace npugraph::codegen
