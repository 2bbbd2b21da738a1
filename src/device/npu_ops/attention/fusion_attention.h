// SPDX-License-Identifier: Apache-2.0
// Calls of npu_fusion_attention, its versions and their gradients, as attention of single sequences.
#pragma once

#include <optional>
#include <vector>

#include "device/npu_ops/attention/attention_core.h"
#include "device/npu_ops/attention/attention_dropout.h"
#include "device/npu_ops/attention/attention_layout.h"
#include "device/npu_ops/attention/attention_mask.h"
#include "device/npu_ops/attention/stored_rows.h"
#include "device/npu_ops/framework/call_arguments.h"

namespace npugraph::npu_ops {

class FusionAttention {
 public:
  // One sequence, or all of them if rows are not packed.
  struct Piece {
    Tensor query, key, value;
    Weighting weighting;
  };

  explicit FusionAttention(const CallArguments& call);

  std::vector<Piece> pieces() const;

  // These join the pieces of a tensor of queries, or of keys or values, in the layout of the call.
  Tensor joined_queries(const std::vector<Tensor>& parts) const;
  Tensor joined_keys(const std::vector<Tensor>& parts) const;
  // Joins statistics in 8 copies: [batches, N, rows, 8], or [T, N, 8], in float32 (float64 stays).
  Tensor joined_statistics(const std::vector<Tensor>& parts) const;
  // The part of a tensor like the queries, or like statistics, for one piece.
  Tensor queries_of(const char* name, const Tensor& tensor, size_t piece) const;
  Tensor statistics_of(const Tensor& tensor, size_t piece) const;
  // The gradient of pse, in its type and shape, given the gradients of the scores of each piece.
  // Empty unless pse is a bias.
  Tensor gradient_of_pse(const std::vector<Tensor>& scores) const;

  // Seed and number of weights of the dropout of a forward call. The number is 0 if nothing is drawn or it is not
  // known.
  DropoutSeed seed;
  int64_t weights = 0;
  // How many elements at the end of heads of query and key were given as query_rope and key_rope.
  std::optional<c10::SymInt> rope_size;

 private:
  void take_tensors(const CallArguments& call);
  void take_lengths(const CallArguments& call);
  void take_mask(const CallArguments& call);
  void take_dropout(const CallArguments& call);
  void take_seed(const CallArguments& call);
  Weighting weighting(int64_t index, const Tensor& query, const Tensor& key, const c10::SymInt& first) const;
  Tensor dropped(int64_t index, const Tensor& query, const Tensor& key) const;
  Tensor bias(int64_t index, const Tensor& query, const Tensor& key) const;
  Tensor part(const Tensor& given, int64_t index) const;
  c10::SymInt count_weights() const;

  const char* op_;
  bool numbers_are_tensors_;  // lengths, seed and offset
  Axes axes_;
  Tensor query_, key_, value_;
  std::optional<Sequences> query_sequences_, key_sequences_;  // if rows are packed
  Tensor mask_, pse_, pse_given_, sink_;
  int64_t pse_type_ = 1, query_start_ = 0, key_start_ = 0;
  MaskRule rule_;
  std::vector<int64_t> prefix_;
  double scale_ = 1;
  Dropout dropout_;
};

// Gradients (npu::RecordGradient) of npu_fusion_attention_v3, and of npu_fusion_attention_grad_v3, whose results want
// none.
void record_fusion_attention(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void record_fusion_attention_gradient(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace npugraph::npu_ops
