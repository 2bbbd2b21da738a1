// SPDX-License-Identifier: Apache-2.0
// Attention for inference: npu_fused_infer_attention_score and the older operators for its two halves.
#include "torch/npu/pool_operators.h"
#include "torch/npu_ops/attention/families.h"
#include "torch/npu_ops/attention/fused_infer_call.h"
#include "torch/npu_ops/attention/workspace.h"

namespace npugraph::npu_ops {
namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

void infer(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const auto [result, lse] = InferAttention(call).compute();
  call.give(result, lse);
}

void infer_meta(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const auto [result, lse] = empty_infer_results(call);
  call.give(result, lse);
}

void infer_result(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  call.give(InferAttention(call).compute().first);
}

void infer_result_meta(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  call.give(empty_infer_results(call).first);
}

std::vector<Tensor> two_outputs(const CallArguments& call) {
  const std::vector<Tensor> out = call.tensors({"out"});
  TORCH_CHECK(out.size() == 2, call.op(), ": out has ", out.size(),
              " tensors, and not two: attention_out and softmax_lse");
  return out;
}

void infer_out(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const std::vector<Tensor> out = two_outputs(call);
  const auto [result, lse] = InferAttention(call).compute();
  out[0].copy_(result.view_as(out[0]));
  if (lse.numel() != 0) out[1].copy_(lse.view_as(out[1]));
  call.give(out[0], out[1]);
}

void infer_out_meta(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const std::vector<Tensor> out = two_outputs(call);
  call.give(out[0], out[1]);
}

constexpr const char* kDefinition =
    "softmax(scale * query @ key^T + pse_shift, of what sparse_mode and atten_mask let a row see) @ value. Results: "
    "this, and "
    "log(sum(exp(scores))) in float32, [B, N, S, 1] or [T, N, 1], of size [0] where it is not wanted. A row that sees "
    "nothing "
    "gives 0 and -inf. query_rope and key_rope are further elements of heads. Keys and values in int8, float8 or int4, "
    "eight to an int32, stand for (stored + offset) * scale. A query in int8: scores times dequant_scale1, result "
    "times quant_scale1 * dequant_scale2, "
    "weights not "
    "rounded";

}  // namespace

void define_fused_infer_attention(Definitions& npu) {
  npugraph::npu::declare_pool_operators({"npu.npu_fused_infer_attention_score",
                                         "npu.npu_fused_infer_attention_score_v2",
                                         "npu._npu_fused_infer_attention_score_get_max_workspace",
                                         "npu._npu_fused_infer_attention_score_v2_get_max_workspace"});
  npu.composed_without({"actual_seq_lengths", "actual_seq_lengths_kv", "block_table", "query_padding_size",
                        "kv_padding_size", "actual_shared_prefix_len"},
                       "npu_fused_infer_attention_score", boxed<&infer>(), boxed<&infer_meta>(), kDefinition);
  npu.composed_without(
      {"actual_seq_qlen", "actual_seq_kvlen", "block_table"}, "npu_fused_infer_attention_score_v2", boxed<&infer>(),
      boxed<&infer_meta>(),
      "npu_fused_infer_attention_score with other names; learnable_sink is one more score a head, in the "
      "sum of the softmax alone");
  for (const char* name : {"npu_fused_infer_attention_score.out", "npu_fused_infer_attention_score_v2.out"})
    npu.computed(name, boxed<&infer_out>(), boxed<&infer_out_meta>(), "npu_fused_infer_attention_score into out");
  for (const char* name :
       {"_npu_fused_infer_attention_score_get_max_workspace", "_npu_fused_infer_attention_score_v2_get_max_workspace"})
    npu.computed(name, boxed<&give_workspace>(), boxed<&give_workspace>(),
                 "a tensor to pass as workspace, of which no use is made");
  for (const char* name :
       {"_npu_fused_infer_attention_score_infer_output", "_npu_fused_infer_attention_score_v2_infer_output"})
    npu.computed(name, boxed<&infer_meta>(), boxed<&infer_meta>(),
                 "tensors for the results of npu_fused_infer_attention_score, with nothing in them");
  npu.composed_without({"actual_seq_lengths", "actual_seq_lengths_kv"}, "npu_prompt_flash_attention",
                       boxed<&infer_result>(), boxed<&infer_result_meta>(),
                       "the first result of npu_fused_infer_attention_score");
  npu.composed_without({"actual_seq_lengths", "block_table", "kv_padding_size"}, "npu_incre_flash_attention",
                       boxed<&infer_result>(), boxed<&infer_result_meta>(),
                       "the first result of npu_fused_infer_attention_score; actual_seq_lengths are those of keys");
}

}  // namespace npugraph::npu_ops
