// SPDX-License-Identifier: Apache-2.0
// Attention of the sequences of a call by generated code, which reads keys and values where they lie.
#pragma once

#include <optional>

#include "device/npu_ops/attention/attention_core.h"
#include "device/npu_ops/attention/stored_rows.h"

namespace npugraph::npu_ops {

struct VarlenCall {
  Tensor query, query_rope;  // [batches, heads, rows, size]; query_rope: further elements of heads, may be undefined
  const Sequences& queries;
  const StoredRows& key;
  const StoredRows& value;
  const StoredRows* key_rope = nullptr;
  const KeyRows& keys;
  // A query at position p sees the keys from p - before to p + after; without a number there is no such limit.
  std::optional<int64_t> before, after;
  bool at_end = true;  // the last query of a sequence is at its last key; otherwise the first one is at the first key
  double scale = 1;
  bool wants_lse = false;
};

// Results for the rows of all sequences, and 0 in other rows. `max` is log(sum(exp(scores))) if it is wanted, and `sum`
// is 1. Nothing for calls that generated code does not compute, or that are not allowed.
std::optional<Attention> attend_varlen(const VarlenCall& call);

}  // namespace npugraph::npu_ops
