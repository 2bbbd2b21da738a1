// SPDX-License-Identifier: Apache-2.0
// Which keys a query does not see: Ascend's sparse modes.
#pragma once

#include <limits>

#include "torch/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// Tokens before and after a query that it sees where nothing else is said: all.
constexpr int64_t kAllTokens = std::numeric_limits<int32_t>::max();

// Row i and column j of one sequence; "right" aligns the last row with the last column, otherwise it is the first with the
// first. Modes: 0 the mask, if there is one, and within it the band; 1 the mask alone; 2 causal; 3 causal, right; 4 band,
// right; 5 and 6 as 3, and all see the first `prefix` columns; 7 as 3, and in the last sequence as 4; 8 as 2, and in the
// first sequence as 4. The band: i - pre_tokens <= j <= i + next_tokens. In modes 2 to 8 the mask that calls pass says nothing
// that the mode does not say.
struct MaskRule {
  int64_t sparse_mode = 0;
  int64_t pre_tokens = kAllTokens;
  int64_t next_tokens = kAllTokens;
  int64_t prefix = 0;
};

void check_rule(const char* op, const MaskRule& rule, int64_t last_mode);

// The rule of one of `count` sequences, in modes that have one rule for all.
MaskRule rule_of_sequence(MaskRule rule, int64_t index, int64_t count);

// It drops what lies above the diagonal from the first row and column, and nothing else.
bool is_causal(const MaskRule& rule, const c10::SymInt& rows, const c10::SymInt& columns);

// bool, true where a query does not see a key: [rows, columns], or the shape of `mask`, which is undefined or of as many rows
// and columns, true or not 0 where it drops. Undefined where nothing is dropped.
Tensor dropped_by(const char* op, const MaskRule& rule, const Tensor& mask, const Tensor& like, const c10::SymInt& rows,
                  const c10::SymInt& columns);

// The rows and columns of one sequence, as [1, heads or 1, rows, columns], of a mask or bias of 1 to 4 dimensions that is
// given for batches or for all of them. One row stands for all rows.
Tensor part_of_sequence(const Tensor& given, int64_t batch, int64_t rows, int64_t columns);

// The same for all sequences: a mask or bias with 4 dimensions, [batches or 1, heads or 1, rows or 1, columns], of one with
// fewer.
Tensor with_four_dims(const Tensor& given, const c10::SymInt& rows);

}  // namespace npugraph::npu_ops
