// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul/tile_shape.h"

namespace npugraph::codegen {

// Sums stay in registers, beside the vectors of a step and one broadcast. They are enough to hide the latency of
// multiply-add.
TileShape tile_shape(const target::Target& target, TileKind kind) {
  TileShape shape{.lanes = target.lanes(DType::kF32), .fma = target.fma};
  shape.amx = target.amx && kind != TileKind::kF32 && kind != TileKind::kI16Pairs;
  shape.rows = shape.amx ? kAmxRows : target.vector_registers >= 32 ? 12 : 6;
  shape.fetched_rows = shape.rows;
  return shape;
}

TileShape narrow(TileShape shape) {
  shape.vectors = 1;
  return shape;
}

}  // namespace npugraph::codegen
