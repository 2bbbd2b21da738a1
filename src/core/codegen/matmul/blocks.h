// SPDX-License-Identifier: Apache-2.0
// The blocks that a matrix product is cut into. matmul_blocks() lists the candidates, of which the cheapest is taken.
#pragma once

#include <cstdint>
#include <string>

namespace npugraph::codegen {

// Which operand moves through caches once (the rows of a tile, or a matrix in place) and which is packed.
enum class Form : uint8_t {
  kRowsMatvec,     // few rows of A; B contiguous along k
  kColumnsMatvec,  // few rows of A; B contiguous along n
  kPackA,          // rows of tiles are the columns of C: B is broadcast in place, tiles are transposed
  kPackB,          // rows of tiles are the rows of C: a work item packs a few panels of B at a time, into its cache
};

struct MatmulBlocks {
  Form form = Form::kPackA;
  // Rows of C that tiles compute. With kPackA, there may be rows behind them, too few for a vector.
  int64_t tile_rows = 0;
  int64_t block_rows = 0;  // of C, of one work item
  int64_t block_columns = 0;
  int64_t block_steps = 0;  // of a part of the sum that is computed at once
  bool operator==(const MatmulBlocks&) const = default;
};

std::string str(const MatmulBlocks& blocks);

}  // namespace npugraph::codegen
