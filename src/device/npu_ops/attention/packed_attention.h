// SPDX-License-Identifier: Apache-2.0
// Attention of packed queries, sequence by sequence, to packed rows or to pages of a cache.
#pragma once

#include <optional>
#include <vector>

#include "device/npu_ops/attention/attention_core.h"
#include "device/npu_ops/attention/stored_rows.h"

namespace npugraph::npu_ops {

// Columns that rows do not see. Elements of a mask above 0 drop a column; the others are added to scores. The mask has
// a row for each query of all sequences, or one for each position of a sequence, whose queries are its last positions.
// If it is smaller than a sequence, it is a sample of the triangle that drops the columns after a position.
struct PackedMask {
  Tensor mask;
  bool by_position = false;  // rows are positions, even if there are as many as queries
  bool causal = false;       // drops the columns after a position, without a mask
  Tensor slopes;             // [heads]: slope * distance is subtracted from scores (ALiBi, Press et al., 2022)
};

struct PackedCall {
  Tensor query;  // [1, heads, rows, size]
  std::vector<int64_t> query_lengths;
  StoredRows key, value;
  std::optional<StoredRows> key_rope;  // further elements of heads of key
  KeyRows keys;
  double scale = 1;
  PackedMask mask;
};

// [T, heads, size], and, if wanted, log(sum(exp(scores))) in float32, [T, heads, 1].
struct PackedResult {
  Tensor result, lse;
};
PackedResult attend_packed(const char* op, const PackedCall& call, bool wants_lse);

}  // namespace npugraph::npu_ops
