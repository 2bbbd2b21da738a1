// SPDX-License-Identifier: Apache-2.0
// Attention to the blocks of keys that are selected for each query (Native Sparse Attention, Yuan et al., 2025).
#include "device/npu_ops/attention/attention_mask.h"
#include "device/npu_ops/families.h"
#include "device/npu_ops/sparse_attention/nsa_call.h"
#include "device/npu_ops/sparse_attention/sparse_call.h"

namespace npugraph::npu_ops {
namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

// A mask with fewer rows or columns than a sequence is a sample of the causal triangle.
Tensor hidden_by_mask(const CallArguments& call, int64_t index, const Tensor& query, const Tensor& key) {
  const Tensor mask = call.optional_tensor({"atten_mask"});
  const c10::SymInt &rows = query.sym_size(2), &columns = key.sym_size(2);
  if (mask.defined() && (mask.sym_size(-2) < rows || mask.sym_size(-1) < columns))
    return dropped_by(call.op(), {.sparse_mode = 3}, Tensor(), query, rows, columns);
  return first_of_mask(call.op(), "atten_mask", mask, index, rows, columns);
}

AttentionPieces selected_attention(const CallArguments& call) {
  const int64_t block_size = nsa_count(call, "select_block_size"), count = nsa_count(call, "select_block_count");
  const Tensor indices = nsa_choices(call, call.tensor({"topk_indices"}));
  TORCH_CHECK(indices.sym_size(-1) == count, call.op(), ": select_block_count is ", count, ", and topk_indices has ",
              indices.sym_size(-1), " for a row");
  const auto dropped = [&call, indices, block_size](const SequencePairs& pairs, int64_t index, const Tensor& rows,
                                                    const Tensor& columns) {
    const Tensor own = pairs.of_queries(indices, index);
    TORCH_CHECK(own.sym_size(1) == columns.sym_size(1), call.op(), ": topk_indices has ", own.sym_size(1),
                " heads, and key ", columns.sym_size(1));
    const Tensor others = shared_by_heads(not_chosen(own, block_size, columns.sym_size(2)), rows.sym_size(1));
    const Tensor hidden = hidden_by_mask(call, pairs.is_whole() ? -1 : index, rows, columns);
    return hidden.defined() ? others.logical_or(hidden) : others;
  };
  return nsa_pieces(call, dropped);
}

void select_attention(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Axes axes = nsa_axes(call);
  const Attention out = selected_attention(call).attend();
  call.give(from_heads(out.result, axes), statistics_in_copies(out.max, axes), statistics_in_copies(out.sum, axes));
}

void select_attention_infer(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  call.give(from_heads(selected_attention(call).attend().result, nsa_axes(call)));
}

void select_attention_grad(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Axes axes = nsa_axes(call);
  const auto rows = [&](const char* name) { return to_heads(call.op(), name, call.tensor({name}), axes, 0); };
  const auto statistic = [&](const char* name) {
    return statistics_to_heads(call.tensor({name}), axes).narrow(-1, 0, 1);
  };
  const Attention saved{rows("attention_out"), statistic("softmax_max"), statistic("softmax_sum")};
  const AttentionGradients out = selected_attention(call).gradients(saved, rows("grad"));
  call.give(from_heads(out.query, axes), from_heads(out.key, axes), from_heads(out.value, axes));
}

}  // namespace

void define_selected_attention(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_nsa_select_attention(Tensor query, Tensor key, Tensor value, Tensor topk_indices, float "
                "scale_value, int head_num, int select_block_size, int select_block_count, *, Tensor? atten_mask=None, "
                "int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(boxed<&select_attention>()),
      .definition = "Attention of packed queries to the blocks of keys that topk_indices selects (Native Sparse "
                    "Attention, Yuan et al., 2025, equation 11). query is [T, N, D] with N = head_num; key and value "
                    "are [rows, key heads, D]. topk_indices is [T, key heads, select_block_count]: number b selects "
                    "the select_block_size keys of the sequence from b * select_block_size on, and -1 selects none. "
                    "atten_mask hides keys where it is not 0; a mask that is smaller than a sequence stands for the "
                    "causal mask. actual_seq_qlen and actual_seq_kvlen are the cumulative ends of the sequences. "
                    "Results: the attention, and the maximum and the sum of the softmax, [T, N, 8] in float32 with 8 "
                    "equal copies.",
  });
  library.add({
      .schema = "npu::npu_nsa_select_attention_grad(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor "
                "attention_out, Tensor softmax_max, Tensor softmax_sum, Tensor topk_indices, float scale_value, int "
                "head_num, int select_block_size, int select_block_count, *, Tensor? atten_mask=None, int[]? "
                "actual_seq_qlen=None, int[]? actual_seq_kvlen=None) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(boxed<&select_attention_grad>()),
      .definition = "Gradients of npu_nsa_select_attention for query, key and value, in their shapes and types. They "
                    "are computed from grad, the gradient of attention_out, and from the results attention_out, "
                    "softmax_max and softmax_sum (FlashAttention-2, Dao, 2023). The other arguments are those of the "
                    "forward call.",
  });
  library.add({
      .schema = "npu::npu_nsa_select_attention_infer(Tensor query, Tensor key, Tensor value, Tensor topk_indices, "
                "float scale_value, int head_num, int key_value_head_num, int select_block_size, int "
                "select_block_count, int page_block_size, *, str layout='BSND', Tensor? atten_mask=None, Tensor? "
                "block_table=None, int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None) -> Tensor",
      .kernel = parts(boxed<&select_attention_infer>()),
      .definition = "npu_nsa_select_attention for inference, with the attention as its only result. layout is BSH, "
                    "BSND or TND. With block_table, key and value are paged caches with pages of page_block_size rows "
                    "and key_value_head_num heads. actual_seq_kvlen has cumulative ends in the layout TND without "
                    "block_table, and lengths of sequences otherwise.",
  });
}

}  // namespace npugraph::npu_ops
