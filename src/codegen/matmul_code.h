// SPDX-License-Identifier: Apache-2.0
// Machine code of the pieces of matrix products: made on first use, shared by all products of the process. Thread-safe.
#pragma once

#include "codegen/matmul_epilogue.h"
#include "codegen/matmul_tile.h"
#include "codegen/matvec.h"

namespace npugraph::codegen {

TileFunction* tile_code(const target::Target& target, TileKind kind, bool narrow);
PackingTileFunction* packing_tile_code(const target::Target& target, TileKind kind);
InterleaveFunction* interleave_code(const target::Target& target, TileKind kind);
TransposeFunction* transpose_code(const target::Target& target);
WidenFunction* widen_code(const target::Target& target, DType to);
RowsMatvecFunction* rows_matvec_code(const target::Target& target, MatvecKind kind, int vectors);
ColumnsMatvecFunction* columns_matvec_code(const target::Target& target, MatvecKind kind, int vectors);
StoreSumsFunction* store_sums_code(const target::Target& target, DType c);
EpilogueFunction* epilogue_code(const target::Target& target, const loop::Kernel& epilogue, DType sums = DType::kF32);

}  // namespace npugraph::codegen
