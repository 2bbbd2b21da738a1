// SPDX-License-Identifier: Apache-2.0
// Which keys a query does not see: Ascend's sparse modes.
#pragma once

#include <limits>

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// Default of pre_tokens and next_tokens: a query sees all tokens before and after it.
constexpr int64_t kAllTokens = std::numeric_limits<int32_t>::max();

// Which columns j row i of one sequence sees. "right" aligns the last row with the last column; otherwise the first row
// is aligned with the first column. Modes: 0 the mask, if there is one, and within it the band; 1 the mask alone; 2
// causal; 3 causal, right; 4 band, right; 5 and 6 as 3, and all rows see the first `prefix` columns; 7 as 3, and in the
// last sequence as 4; 8 as 2, and in the first sequence as 4. The band: i - pre_tokens <= j <= i + next_tokens. In
// modes 2 to 8 the mask that calls pass is redundant.
struct MaskRule {
  int64_t sparse_mode = 0;
  int64_t pre_tokens = kAllTokens;
  int64_t next_tokens = kAllTokens;
  int64_t prefix = 0;
};

void check_rule(const char* op, const MaskRule& rule, int64_t last_mode);

// The rule for sequence `index` of `count`, in a mode that is the same for all sequences.
MaskRule rule_of_sequence(MaskRule rule, int64_t index, int64_t count);

// Whether the rule drops exactly the columns above the diagonal from the first row and column.
bool is_causal(const MaskRule& rule, const c10::SymInt& rows, const c10::SymInt& columns);

// bool, true where a query does not see a key: [rows, columns], or the shape of `mask`. Undefined if nothing is
// dropped. `mask` may be undefined; its last dimensions are rows and columns, and it is true or not 0 where it drops.
Tensor dropped_by(const char* op, const MaskRule& rule, const Tensor& mask, const Tensor& like, const c10::SymInt& rows,
                  const c10::SymInt& columns);

// The rows and columns of sequence `batch`, [1, heads or 1, rows or 1, columns], of a mask or bias with 4 dimensions,
// given for each batch or once for all. A single row stands for all rows.
Tensor part_of_sequence(const Tensor& given, int64_t batch, int64_t rows, int64_t columns);

// Where one of two masks is true; an undefined one is false everywhere.
Tensor either(const Tensor& a, const Tensor& b);

// A mask or bias with 4 dimensions, [batches or 1, heads or 1, rows or 1, columns], from one with 2 to 4.
Tensor with_four_dims(const Tensor& given, const c10::SymInt& rows);

// The first `rows` and `columns` of a mask for sequence `index`, or for all sequences if it is -1, as bool. The
// mask has 2 to 4 dimensions, [(batches or 1), (heads or 1), rows, columns], and is not 0 where it drops.
// Undefined if there is no mask.
Tensor first_of_mask(const char* op, const char* name, const Tensor& mask, int64_t index, const c10::SymInt& rows,
                     const c10::SymInt& columns);

}  // namespace npugraph::npu_ops
