// SPDX-License-Identifier: Apache-2.0
// Attention for training, forward and backward.
#include "device/npu_ops/attention/fusion_attention.h"

#include "device/npu_ops/attention/workspace.h"
#include "device/npu_ops/families.h"

namespace npugraph::npu_ops {
namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

Attention forward_of(const FusionAttention::Piece& piece) {
  const Weighting& weighting = piece.weighting;
  if (weighting.sink.defined() || weighting.kept.defined())
    return attend_with_statistics(piece.query, piece.key, piece.value, weighting);
  Attention out = statistics(piece.query, piece.key, weighting);
  out.result = attend(piece.query, piece.key, piece.value, weighting);
  return out;
}

struct Forward {
  Tensor result, max, sum;
};

Forward forward_pass(const FusionAttention& call) {
  std::vector<Tensor> results, maxima, sums;
  for (const FusionAttention::Piece& piece : call.pieces()) {
    const Attention out = forward_of(piece);
    results.push_back(out.result);
    maxima.push_back(out.max);
    sums.push_back(out.sum);
  }
  return {call.joined_queries(results), call.joined_statistics(maxima), call.joined_statistics(sums)};
}

// npu_fusion_attention and _v2, where seed and offset of the dropout are numbers.
void fusion_attention(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const FusionAttention attention(call);
  const Forward out = forward_pass(attention);
  call.give(out.result, out.max, out.sum, out.result.new_empty({0}), attention.seed.seed_number,
            attention.seed.offset_number, attention.weights);
}

void fusion_attention_v3(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const FusionAttention attention(call);
  const Forward out = forward_pass(attention);
  const DropoutSeed& seed = attention.seed;
  call.give(out.result, out.max, out.sum, out.result.new_empty({0}),
            seed.seed.defined() ? seed.seed : one_number(0, out.result),
            seed.offset.defined() ? seed.offset : one_number(0, out.result));
}

struct Shapes {
  Tensor result, statistics;
};

Shapes empty_results(const CallArguments& call) {
  const Axes axes = layout_of(call.op(), call.text({"input_layout"})).in;
  const Tensor &query = call.tensor({"query"}), &value = call.tensor({"value"}), &key = call.tensor({"key"});
  const Tensor heads = to_heads(call.op(), "query", query, axes, call.integer({"head_num"}));
  const int64_t key_heads = heads_of_rows(key, axes, heads.sym_size(3));
  const c10::SymInt size = key_heads == 0 ? value.sym_size(-1) : value.sym_size(-1) / key_heads;
  const Tensor result = heads.new_empty_symint({heads.sym_size(0), heads.sym_size(1), heads.sym_size(2), size});
  const auto type = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor rows = at::empty_symint({heads.sym_size(0), heads.sym_size(1), heads.sym_size(2), kStatisticsCopies},
                                       heads.options().dtype(type));
  return {from_heads(result, axes), statistics_from_heads(rows, axes)};
}

void fusion_attention_v3_meta(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Shapes out = empty_results(call);
  const auto integer = out.result.options().dtype(at::kLong);
  call.give(out.result, out.statistics, at::empty_like(out.statistics), out.result.new_empty({0}),
            at::empty({1}, integer), at::empty({1}, integer));
}

void infer_output(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Shapes out = empty_results(call);
  call.give(out.result, out.statistics, at::empty_like(out.statistics));
}

struct Gradients {
  Tensor query, key, value, pse, query_rope, key_rope, sink;
};

Attention saved_of(const CallArguments& call, const FusionAttention& attention, const FusionAttention::Piece& piece,
                   size_t index) {
  const Tensor max = call.optional_tensor({"softmax_max"}), sum = call.optional_tensor({"softmax_sum"});
  const Tensor result = call.optional_tensor({"attention_in"});
  if (!max.defined() || !sum.defined() || !result.defined())
    return attend_with_statistics(piece.query, piece.key, piece.value, piece.weighting);
  return {attention.queries_of("attention_in", result, index), attention.statistics_of(max, index),
          attention.statistics_of(sum, index)};
}

// `size` elements of each head from `start` on, for each part.
std::vector<Tensor> narrowed(std::vector<Tensor> parts, const c10::SymInt& start, const c10::SymInt& size) {
  for (Tensor& part : parts) part = part.narrow_symint(-1, start, size);
  return parts;
}

Gradients backward_pass(const CallArguments& call) {
  const FusionAttention attention(call);
  std::vector<Tensor> queries, keys, values, scores;
  Tensor sink;
  const auto pieces = attention.pieces();
  for (size_t index = 0; index < pieces.size(); ++index) {
    const FusionAttention::Piece& piece = pieces[index];
    const Attention saved = saved_of(call, attention, piece, index);
    const Tensor given = attention.queries_of("dy", call.tensor({"dy"}), index);
    const AttentionGradients out =
        attention_gradients(piece.query, piece.key, piece.value, piece.weighting, saved, given);
    queries.push_back(out.query);
    keys.push_back(out.key);
    values.push_back(out.value);
    scores.push_back(out.scores);
    if (out.sink.defined()) sink = sink.defined() ? sink + out.sink : out.sink;
  }
  const Tensor none = call.tensor({"query"}).new_empty({0});
  const c10::SymInt rope = attention.rope_size.value_or(0), size = queries.front().sym_size(-1) - rope;
  const auto rope_of = [&](const std::vector<Tensor>& parts) { return narrowed(parts, size, rope); };
  Gradients out;
  out.query = attention.joined_queries(narrowed(queries, 0, size));
  out.key = attention.joined_keys(narrowed(keys, 0, size));
  out.value = attention.joined_keys(values);
  out.pse = attention.gradient_of_pse(scores);
  out.query_rope = attention.rope_size ? attention.joined_queries(rope_of(queries)) : none;
  out.key_rope = attention.rope_size ? attention.joined_keys(rope_of(keys)) : none;
  out.sink = sink.defined() ? sink : none;
  return out;
}

void fusion_attention_grad(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Gradients out = backward_pass(call);
  call.give(out.query, out.key, out.value, out.pse, out.sink);
}

void fusion_attention_grad_v2(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Gradients out = backward_pass(call);
  call.give(out.query, out.key, out.value, out.pse, out.query_rope, out.key_rope, out.sink);
}

void grad_meta(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Tensor& query = call.tensor({"query"});
  const auto like = [&](const char* name) {
    const Tensor given = call.optional_tensor({name});
    return given.defined() ? given.new_empty_symint(given.sym_sizes()) : query.new_empty({0});
  };
  call.give(like("query"), like("key"), like("value"), like("pse"), like("sink"));
}

// Runs the operator without .out and copies its results.
template <auto* Kernel>
void into_out(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const std::vector<Tensor> out = call.tensors({"out"});
  Kernel(op, stack);
  const size_t results = op.schema().returns().size();
  TORCH_CHECK(out.size() == results, call.op(), ": out has ", out.size(), " tensors, and there are ", results,
              " results");
  for (size_t index = 0; index < results; ++index) {
    c10::IValue& result = torch::jit::peek(*stack, index, results);
    if (out[index].sym_numel() == result.toTensor().sym_numel())
      out[index].copy_(result.toTensor().view_as(out[index]));
    result = out[index];
  }
}

void given_out(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const std::vector<Tensor> out = call.tensors({"out"});
  torch::jit::drop(*stack, op.schema().arguments().size());
  for (const Tensor& tensor : out) stack->emplace_back(tensor);
}

constexpr const char* kForward =
    "Attention for training, with grouped-query heads and a gradient: dropout(softmax(scale * (query @ key^T + pse))) "
    "@ value over the keys that sparse_mode and atten_mask leave visible. query, key and value are in input_layout: "
    "BSH, SBH, BSND, BNSD or, for packed sequences, TND (B batches, S rows, N = head_num, D head size, H = N * D, T "
    "rows of all sequences). key and value may have fewer heads, and value heads of another size. actual_seq_qlen and "
    "actual_seq_kvlen are the cumulative ends of packed sequences. pse and atten_mask are [B, N, S, S_kv], where B, N "
    "and S may be 1, [B, S, S_kv], [S, S_kv] or, for a single query, [B, S_kv]; in TND they have the sizes of the "
    "longest sequences, and each sequence uses the first rows and columns of its batch. sparse_mode 0 applies "
    "atten_mask (nonzero masks a key) and, only if atten_mask is given, the band of pre_tockens and next_tockens, "
    "aligned at the first query and key: query i sees keys i - pre_tockens to i + next_tockens, and 2147483647 is no "
    "limit. 1 applies atten_mask alone; the other modes ignore it. 2 is a causal mask aligned at the first query and "
    "key; 3 a causal mask aligned at the last ones; 4 the band, aligned at the last ones; 5 and 6 are as 3, but all "
    "queries see the first prefix[b] keys. 7 and 8 are for TND: 7 is 3, but 4 in the last sequence; 8 is 2, but 4 in "
    "the first one. sink [N] is one more score per head, not scaled and without a value, that enters the maximum and "
    "the sum of the softmax. Dropout keeps a weight with probability keep_prob and divides it by keep_prob. Weights "
    "are numbered in the order [B, N, S, S_kv], in TND one sequence after the other. dropout_mask has a nonzero "
    "element for each weight to keep or, in uint8, a bit, the first in the lowest bit of a byte. Without it, seed and "
    "offset name the mask, which _npu_dropout_gen_mask gives, or, where both are 0, the generator of the device draws "
    "one. Results: the attention, in the layout and type of query, 0 for a query with all keys masked; the maximum and "
    "the sum of the softmax in float32, each in 8 equal copies, [B, N, S, 8] or [T, N, 8], -inf and 0 for such a query "
    "without sink; an empty tensor; and the ints seed, offset and number of weights, N * S * S_kv of all sequences, "
    "from which the gradient makes the same dropout. A drawn seed and offset, passed to another call, drop the same "
    "weights. Both are 0 with dropout_mask and where a graph does not know them; without dropout all three ints are 0. "
    "padding_mask, inner_precise, gen_mask_parallel, sync and softmax_layout are ignored.";
constexpr const char* kBackward =
    "Gradients of npu_fusion_attention for query, key, value, pse and sink, in this order, from the gradient dy of its "
    "first result (FlashAttention-2, Dao, 2023). attention_in, softmax_max and softmax_sum are its first three "
    "results; if one is absent, they are computed again. seed and offset are those that the forward call returned, and "
    "are needed if keep_prob is not 1. The other arguments are those of the forward call. Results have the shapes and "
    "types of the arguments; a tensor of size [0] stands for the gradient of an absent argument. softmax_in, numels "
    "and the arguments that npu_fusion_attention ignores have no effect.";

}  // namespace

void define_fusion_attention(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_fusion_attention(Tensor query, Tensor key, Tensor value, int head_num, str input_layout, "
                "Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, float scale=1., float "
                "keep_prob=1., int pre_tockens=2147483647, int next_tockens=2147483647, int inner_precise=0, int[]? "
                "prefix=None, int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None, int sparse_mode=0, bool "
                "gen_mask_parallel=True, bool sync=False, str softmax_layout=\"\", Tensor? sink=None, Tensor? "
                "dropout_mask=None, int seed=0, int offset=0) -> (Tensor, Tensor, Tensor, Tensor, int, int, int)",
      .kernel = parts(boxed<&fusion_attention>()),
      .definition = kForward,
  });
  library.add({
      .schema =
          "npu::npu_fusion_attention_v2(Tensor query, Tensor key, Tensor value, int head_num, str input_layout, *, "
          "Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, Tensor? query_rope=None, Tensor? "
          "key_rope=None, float scale=1., float keep_prob=1., int pre_tokens=2147483647, int next_tokens=2147483647, "
          "int inner_precise=0, int[]? prefix=None, int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None, int "
          "sparse_mode=0, bool gen_mask_parallel=True, bool sync=False, int pse_type=1, int[]? q_start_idx=None, "
          "int[]? kv_start_idx=None, str softmax_layout=\"\", Tensor? sink=None, Tensor? dropout_mask=None, int "
          "seed=0, int offset=0) -> (Tensor, Tensor, Tensor, Tensor, int, int, int)",
      .kernel = parts(boxed<&fusion_attention>()),
      .definition = "npu_fusion_attention with rotary parts and kinds of pse. query_rope and key_rope, in "
                    "input_layout, are concatenated to the heads of query and key. pse_type 0: scores are scale * "
                    "query @ key^T + pse; 1 (the default): scale * (query @ key^T + pse); 2 and 3: pse holds ALiBi "
                    "slopes [N] or [B, N] (Press et al., 2022), and slope * d or slope * sqrt(d) is subtracted from "
                    "the scaled scores, with the distance d = abs(i + q_start_idx[0] - j - kv_start_idx[0]) of query i "
                    "and key j. pre_tokens is pre_tockens, and next_tokens is next_tockens.",
  });
  library.add({
      .schema = "npu::npu_fusion_attention_v3(Tensor query, Tensor key, Tensor value, int head_num, str input_layout, "
                "Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, float scale=1., float "
                "keep_prob=1., int pre_tockens=2147483647, int next_tockens=2147483647, int inner_precise=0, SymInt[]? "
                "prefix=None, Tensor? actual_seq_qlen=None, Tensor? actual_seq_kvlen=None, int sparse_mode=0, bool "
                "gen_mask_parallel=True, bool sync=False, str softmax_layout=\"\", Tensor? sink=None) -> (Tensor, "
                "Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = whole(boxed<&fusion_attention_v3>(), boxed<&fusion_attention_v3_meta>()),
      .gradient = &record_fusion_attention,
      .traits = {.on_host = {"actual_seq_qlen", "actual_seq_kvlen"}},
      .definition = "npu_fusion_attention with actual_seq_qlen and actual_seq_kvlen as tensors. Dropout is always "
                    "drawn from the generator of the device. The results after the empty tensor are seed and offset "
                    "as int64 tensors [1]; the number of weights is not returned.",
  });
  library.add({
      .schema = "npu::npu_fusion_attention_v3.out(Tensor query, Tensor key, Tensor value, int head_num, str "
                "input_layout, Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, float scale=1., "
                "float keep_prob=1., int pre_tockens=2147483647, int next_tockens=2147483647, int inner_precise=0, "
                "int[]? prefix=None, Tensor? actual_seq_qlen=None, Tensor? actual_seq_kvlen=None, int sparse_mode=0, "
                "bool gen_mask_parallel=True, bool sync=False, str softmax_layout=\"\", Tensor? sink=None, Tensor? "
                "workspace=None, *, Tensor[] out) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = whole(boxed<&into_out<&fusion_attention_v3>>(), boxed<&given_out>()),
      .traits = {.on_host = {"actual_seq_qlen", "actual_seq_kvlen"}},
      .definition = "npu_fusion_attention_v3 that writes its results into the six tensors of out. A tensor with "
                    "another number of elements than its result is left as it is. workspace is ignored.",
  });
  library.add({
      .schema =
          "npu::npu_fusion_attention_grad(Tensor query, Tensor key, Tensor value, Tensor dy, int head_num, str "
          "input_layout, *, Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, Tensor? "
          "softmax_max=None, Tensor? softmax_sum=None, Tensor? softmax_in=None, Tensor? attention_in=None, float "
          "scale_value=1., float keep_prob=1., int pre_tockens=2147483647, int next_tockens=2147483647, int "
          "inner_precise=0, int seed=0, int offset=0, int numels=0, int[]? prefix=None, int[]? actual_seq_qlen=None, "
          "int[]? actual_seq_kvlen=None, int sparse_mode=0, bool gen_mask_parallel=True, bool sync=False, str "
          "softmax_layout=\"\", Tensor? sink=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(boxed<&fusion_attention_grad>()),
      .definition = kBackward,
  });
  library.add({
      .schema = "npu::npu_fusion_attention_grad_v2(Tensor query, Tensor key, Tensor value, Tensor dy, int head_num, "
                "str input_layout, *, Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, Tensor? "
                "softmax_max=None, Tensor? softmax_sum=None, Tensor? softmax_in=None, Tensor? attention_in=None, "
                "Tensor? query_rope=None, Tensor? key_rope=None, float scale_value=1., float keep_prob=1., int "
                "pre_tokens=2147483647, int next_tokens=2147483647, int inner_precise=0, int seed=0, int offset=0, int "
                "numels=0, int[]? prefix=None, int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None, int "
                "sparse_mode=0, bool gen_mask_parallel=True, bool sync=False, int pse_type=1, int[]? q_start_idx=None, "
                "int[]? kv_start_idx=None, str softmax_layout=\"\", Tensor? sink=None) -> (Tensor, Tensor, Tensor, "
                "Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(boxed<&fusion_attention_grad_v2>()),
      .definition = "Gradients of npu_fusion_attention_v2 for query, key, value, pse, query_rope, key_rope and sink, "
                    "in this order, with arguments as in npu_fusion_attention_grad. The slopes of pse_type 2 and 3 "
                    "have no gradient: a tensor of size [0] stands for it.",
  });
  library.add({
      .schema =
          "npu::npu_fusion_attention_grad_v3(Tensor query, Tensor key, Tensor value, Tensor dy, int head_num, str "
          "input_layout, *, Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, Tensor? "
          "softmax_max=None, Tensor? softmax_sum=None, Tensor? softmax_in=None, Tensor? attention_in=None, float "
          "scale_value=1., float keep_prob=1., int pre_tockens=2147483647, int next_tockens=2147483647, int "
          "inner_precise=0, Tensor? seed=None, Tensor? offset=None, SymInt[]? prefix=None, Tensor? "
          "actual_seq_qlen=None, Tensor? actual_seq_kvlen=None, int sparse_mode=0, bool gen_mask_parallel=True, bool "
          "sync=False, str softmax_layout=\"\", Tensor? sink=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = whole(boxed<&fusion_attention_grad>(), boxed<&grad_meta>()),
      .gradient = &record_fusion_attention_gradient,
      .traits = {.on_host = {"actual_seq_qlen", "actual_seq_kvlen"}},
      .definition = "npu_fusion_attention_grad for npu_fusion_attention_v3, with actual_seq_qlen, actual_seq_kvlen, "
                    "seed and offset as tensors.",
  });
  library.add({
      .schema = "npu::npu_fusion_attention_grad_v3.out(Tensor query, Tensor key, Tensor value, Tensor dy, int "
                "head_num, str input_layout, *, Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, "
                "Tensor? softmax_max=None, Tensor? softmax_sum=None, Tensor? softmax_in=None, Tensor? "
                "attention_in=None, float scale_value=1., float keep_prob=1., int pre_tockens=2147483647, int "
                "next_tockens=2147483647, int inner_precise=0, Tensor? seed=None, Tensor? offset=None, int[]? "
                "prefix=None, Tensor? actual_seq_qlen=None, Tensor? actual_seq_kvlen=None, int sparse_mode=0, bool "
                "gen_mask_parallel=True, bool sync=False, str softmax_layout=\"\", Tensor? sink=None, Tensor? "
                "workspace=None, Tensor[] out) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = whole(boxed<&into_out<&fusion_attention_grad>>(), boxed<&given_out>()),
      .traits = {.on_host = {"actual_seq_qlen", "actual_seq_kvlen"}},
      .definition = "npu_fusion_attention_grad_v3 that writes its results into the five tensors of out. A tensor with "
                    "another number of elements than its result is left as it is. workspace is ignored.",
  });
  library.add({
      .schema = "npu::_npu_fusion_attention_v3_infer_output(Tensor query, Tensor key, Tensor value, int head_num, str "
                "input_layout) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(boxed<&infer_output>()),
      .definition = "Uninitialised tensors with the shapes and types of the first three results of "
                    "npu_fusion_attention_v3: attention, softmax maximum and softmax sum.",
  });
  library.add({
      .schema = "npu::_npu_fusion_attention_grad_v3_infer_output(Tensor query, Tensor key, Tensor value, Tensor? "
                "pse=None, Tensor? sink=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(boxed<&grad_meta>()),
      .definition = "Uninitialised tensors with the shapes and types of the results of npu_fusion_attention_grad_v3: "
                    "those of query, key, value, pse and sink, of size [0] for absent arguments.",
  });
  library.add({
      .schema =
          "npu::_npu_fusion_attention_v3_get_max_workspace(Tensor query, Tensor key, Tensor value, int head_num, str "
          "input_layout, Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, float scale=1., float "
          "keep_prob=1., int pre_tockens=2147483647, int next_tockens=2147483647, int inner_precise=0, int[]? "
          "prefix=None, Tensor? actual_seq_qlen=None, Tensor? actual_seq_kvlen=None, int sparse_mode=0, bool "
          "gen_mask_parallel=True, bool sync=False, str softmax_layout=\"\", Tensor? sink=None) -> Tensor",
      .kernel = parts(boxed<&give_workspace>()),
      .traits = {.on_host = {"actual_seq_qlen", "actual_seq_kvlen"}},
      .definition = kWorkspaceDefinition,
  });
  library.add({
      .schema = "npu::_npu_fusion_attention_grad_v3_get_max_workspace(Tensor query, Tensor key, Tensor value, Tensor "
                "dy, int head_num, str input_layout, *, Tensor? pse=None, Tensor? padding_mask=None, Tensor? "
                "atten_mask=None, Tensor? softmax_max=None, Tensor? softmax_sum=None, Tensor? softmax_in=None, Tensor? "
                "attention_in=None, float scale_value=1., float keep_prob=1., int pre_tockens=2147483647, int "
                "next_tockens=2147483647, int inner_precise=0, Tensor? seed=None, Tensor? offset=None, int[]? "
                "prefix=None, Tensor? actual_seq_qlen=None, Tensor? actual_seq_kvlen=None, int sparse_mode=0, bool "
                "gen_mask_parallel=True, bool sync=False, str softmax_layout=\"\", Tensor? sink=None) -> Tensor",
      .kernel = parts(boxed<&give_workspace>()),
      .traits = {.on_host = {"actual_seq_qlen", "actual_seq_kvlen"}},
      .definition = kWorkspaceDefinition,
  });
}

}  // namespace npugraph::npu_ops
