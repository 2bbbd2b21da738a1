// SPDX-License-Identifier: Apache-2.0
// Calls of npu_fused_infer_attention_score and its relatives, as attention of single sequences.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "device/npu_ops/attention/attention_core.h"
#include "device/npu_ops/attention/attention_mask.h"
#include "device/npu_ops/attention/stored_rows.h"
#include "device/npu_ops/framework/call_arguments.h"

namespace npugraph::npu_ops {

class InferAttention {
 public:
  explicit InferAttention(const CallArguments& call);

  // The result, in the layout and type that the call asks for, and logarithms of sums of exponentials in float32, [B,
  // N, S, 1] or [T, N, 1]; of size [0] where they are not wanted.
  std::pair<Tensor, Tensor> compute() const;

 private:
  struct Lengths {
    Sequences queries;
    KeyRows keys;
  };

  Tensor scale_of_queries(const CallArguments& call, const Tensor& scale) const;
  void take_queries(const CallArguments& call);
  void take_keys(const CallArguments& call);
  void take_weighting(const CallArguments& call);
  void take_prefix(const CallArguments& call);
  void take_result(const CallArguments& call);

  bool has_lengths() const { return query_lengths_ || key_lengths_ || is_packed(layout_.in) || table_.defined(); }
  Lengths lengths() const;
  Attention attend_all() const;
  std::optional<Attention> attend_generated(const Lengths& lengths) const;
  Attention attend_by_sequences() const;
  Attention attend_one(const Tensor& query, const Tensor& key, const Tensor& value, const Weighting& weighting) const;
  Weighting weighting(const Tensor& query, const Tensor& key, const Tensor& mask, const Tensor& bias) const;
  Tensor in_common_type(const Tensor& tensor) const;
  Tensor in_result_type(const Tensor& result) const;

  const char* op_;
  Layout layout_;
  Tensor query_, query_rope_;
  std::optional<StoredRows> key_, value_, key_rope_;
  Tensor key_prefix_, value_prefix_;
  Tensor table_;
  GivenLengths query_lengths_, key_lengths_;
  std::optional<int64_t> query_padding_, key_padding_;
  MaskRule rule_;
  Tensor mask_, bias_, sink_;
  double scale_ = 1;
  Tensor score_factor_, result_factor_;  // for queries and values in int8
  bool in_float32_ = false;              // and not in the common type of query, key and value
  bool wants_lse_ = false;
  at::ScalarType type_ = at::kFloat;
  Tensor result_scale_, result_offset_;  // if the result is int8
};

// Uninitialised tensors like the results. Reads no values of the call, only sizes and types of its tensors.
std::pair<Tensor, Tensor> empty_infer_results(const CallArguments& call);

}  // namespace npugraph::npu_ops
