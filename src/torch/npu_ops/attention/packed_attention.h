// SPDX-License-Identifier: Apache-2.0
// Attention of packed queries, sequence by sequence, to packed rows or to pages of a cache.
#pragma once

#include <optional>
#include <vector>

#include "torch/npu_ops/attention/attention_core.h"
#include "torch/npu_ops/attention/stored_rows.h"

namespace npugraph::npu_ops {

// What rows do not see. Of a mask, what is above 0 drops, and the rest is added to scores; it has a row for each query of all
// sequences, or one for each position of a sequence, the last of which is the last row; or, where it has fewer columns than a
// sequence, it is a sample of the triangle that drops what comes after a position.
struct PackedMask {
  Tensor mask;
  bool by_position = false;  // it has no rows of all sequences, even if their number is that of the queries
  bool causal = false;       // drops what comes after a position, without a mask
  Tensor slopes;             // [heads]: scores less slope * distance (ALiBi, Press et al., 2022)
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

// [T, heads, size], and, where it is wanted, log(sum(exp(scores))) in float32, [T, heads, 1].
struct PackedResult {
  Tensor result, lse;
};
PackedResult attend_packed(const char* op, const PackedCall& call, bool wants_lse);

}  // namespace npugraph::npu_ops
