// SPDX-License-Identifier: Apache-2.0
// Machine code of the pieces of matrix products: made on first use, shared by all products of the process and, except
// for epilogues, kept as long as it lives. Thread-safe.
#pragma once

#include <memory>

#include "codegen/jit/jit.h"
#include "codegen/matmul/epilogue.h"
#include "codegen/matmul/matvec.h"
#include "codegen/matmul/tile.h"

namespace npugraph::codegen {

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
