// SPDX-License-Identifier: Apache-2.0
// Training of attention to chosen keys, and of the indexer that chooses them (DeepSeek-V3.2, 2025, section 2.1).
#include "device/npu_ops/families.h"
#include "device/npu_ops/sparse_attention/index_scores.h"
#include "device/npu_ops/sparse_attention/sparse_call.h"

namespace npugraph::npu_ops {
namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

// The first `size` elements of heads, and the others.
struct HeadParts {
  Tensor first, others;
};
HeadParts head_parts(const Tensor& heads, const c10::SymInt& size, Axes axes) {
  const c10::SymInt rest = heads.sym_size(-1) - size;
  return {from_heads(heads.narrow_symint(-1, 0, size), axes), from_heads(heads.narrow_symint(-1, size, rest), axes)};
}

// The gradient of keys that are values, too: the sum of both gradients.
Tensor with_values(const AttentionGradients& gradients) {
  const c10::SymInt rest = gradients.key.sym_size(-1) - gradients.value.sym_size(-1);
  const Tensor value = wide(gradients.value);
  const Tensor padded =
      rest == 0 ? value : at::cat({value, at::zeros_like(wide(gradients.key)).narrow_symint(-1, 0, rest)}, -1);
  return (wide(gradients.key) + padded).to(gradients.key.scalar_type());
}

void sparse_flash_attention_grad(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Axes axes = query_axes(call);
  const AttentionPieces pieces = chosen_attention(call);
  const auto statistic = [&](const char* name) {
    return from_key_heads(call, name, call.tensor({name}), pieces.query);
  };
  const Attention saved{query_like(call, "out", call.tensor({"out"})), statistic("softmax_max"),
                        statistic("softmax_sum")};
  const AttentionGradients out = pieces.gradients(saved, query_like(call, "d_out", call.tensor({"d_out"})));
  const bool has_value = call.optional_tensor({"value"}).defined(), has_rope = pieces.key_rope.has_value();
  const Tensor& given = call.tensor({"query"});
  const HeadParts query = head_parts(out.query, given.sym_size(-1), axes);
  const HeadParts key = head_parts(has_value ? out.key : with_values(out), given.sym_size(-1), axes);
  call.give(query.first, key.first, has_value ? from_heads(out.value, axes) : given.new_empty({0}),
            has_rope ? query.others : given.new_empty({0}), has_rope ? key.others : given.new_empty({0}));
}

void sparse_flash_attention_grad_meta(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const auto like = [&](const char* name) {
    const Tensor given = call.optional_tensor({name});
    return given.defined() ? given.new_empty_symint(given.sym_sizes()) : call.tensor({"query"}).new_empty({0});
  };
  call.give(like("query"), like("key"), like("value"), like("query_rope"), like("key_rope"));
}

// The inputs of an indexer, and its gradients, which are returned in the layout of the call.
struct IndexCall {
  IndexCall(const CallArguments& call, const char* query_name, const char* key_name)
      : axes(query_axes(call)),
        query(query_like(call, query_name, call.tensor({query_name}))),
        weights(query_like(call, "weights", call.tensor({"weights"}).unsqueeze(-1))),
        key(key_like(call, key_name, call.tensor({key_name}))),
        pairs(pairs_of(call, query, key)) {}

  IndexHeads heads(int64_t index) const {
    return {pairs.of_queries(query, index), pairs.of_keys(key, index), pairs.of_queries(weights, index)};
  }
  void add(const IndexHeads& gradients) {
    queries.push_back(gradients.query);
    keys.push_back(gradients.key);
    all_weights.push_back(gradients.weights);
  }
  Tensor query_gradient() const { return from_heads(pairs.join_queries(queries), axes); }
  Tensor key_gradient() const { return from_heads(pairs.join_keys(keys), axes); }
  Tensor weights_gradient() const { return from_heads(pairs.join_queries(all_weights), axes).squeeze(-1); }

  Axes axes;
  Tensor query, weights;
  StoredRows key;
  SequencePairs pairs;
  std::vector<Tensor> queries, keys, all_weights;
};

void lightning_indexer_grad(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  IndexCall in(call, "query", "key");
  const Tensor indices = query_like(call, "sparse_indices", call.tensor({"sparse_indices"}));
  const Tensor given = wide(query_like(call, "dy", call.tensor({"dy"})));
  for (int64_t index = 0; index < in.pairs.count(); ++index) {
    const IndexHeads heads = in.heads(index);
    const Tensor of_scores =
        at_chosen(in.pairs.of_queries(given, index), in.pairs.of_queries(indices, index), heads.key.sym_size(2));
    in.add(index_gradients(heads, of_scores));
  }
  call.give(in.query_gradient(), in.key_gradient(), in.weights_gradient());
}

void lightning_indexer_grad_meta(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const auto like = [&](const char* name) {
    return at::empty_symint(call.tensor({name}).sym_sizes(), call.tensor({name}).options());
  };
  call.give(like("query"), like("key"), like("weights"));
}

// The distribution over keys that the indexer is trained for: that of attention, summed over heads,
// [batches, 1, rows, columns].
class Target {
 public:
  explicit Target(const CallArguments& call) : heads_(main_heads(call)) {
    saved_.max = from_key_heads(call, "softmax_max", call.tensor({"softmax_max"}), heads_.query);
    saved_.sum = from_key_heads(call, "softmax_sum", call.tensor({"softmax_sum"}), heads_.query);
    weighting_.scale = call.number({"scale_value"});
  }
  // `dropped` broadcasts with the distribution, or is undefined.
  Tensor of(const SequencePairs& pairs, int64_t index, const Tensor& dropped) const {
    Weighting weighting = weighting_;
    weighting.dropped = dropped;
    Tensor key = pairs.of_keys(heads_.key, index);
    if (heads_.key_rope) key = at::cat({key, pairs.of_keys(*heads_.key_rope, index)}, -1);
    const Attention saved{{}, pairs.of_queries(saved_.max, index), pairs.of_queries(saved_.sum, index)};
    const Tensor all = saved_weights(pairs.of_queries(heads_.query, index), key, weighting, saved);
    const Tensor sums = all.sum(1, /*keepdim=*/true), total = sums.sum(-1, /*keepdim=*/true);
    return sums / total.masked_fill(total.eq(0), 1.0);
  }

 private:
  MainHeads heads_;
  Attention saved_;
  Weighting weighting_;
};

// Statistics of index scores that a call gives, [batches, 1, rows, 1].
ScoreStatistics given_statistics(const CallArguments& call, const IndexCall& in, int64_t index) {
  const auto of = [&](const char* name) {
    const Tensor& given = call.tensor({name});
    TORCH_CHECK(given.sym_numel() == in.query.sym_size(0) * in.query.sym_size(2), call.op(), ": ", name, " has shape ",
                given.sym_sizes(), ", allowed are [B, 1, S], and [1, T] where the layout is TND");
    return in.pairs.of_queries(wide(given).reshape_symint({in.query.sym_size(0), 1, -1, 1}), index);
  };
  return {of("softmax_max_index"), of("softmax_sum_index")};
}

// Returns the gradients of the sum over rows of KL(target || softmax(scores)), and this sum. The gradient of the scores
// is softmax(scores) - target.
void grad_kl_loss(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  IndexCall in(call, "query_index", "key_index");
  const Target target(call);
  const Tensor chosen = call.optional_tensor({"sparse_indices"});
  const Tensor indices = chosen.defined() ? query_like(call, "sparse_indices", chosen) : Tensor();
  Tensor loss = at::zeros({1}, in.query.options().dtype(wide(in.query.new_empty({0})).scalar_type()));
  for (int64_t index = 0; index < in.pairs.count(); ++index) {
    const IndexHeads heads = in.heads(index);
    const Tensor others =
        indices.defined() ? not_chosen(in.pairs.of_queries(indices, index), 1, heads.key.sym_size(2)) : Tensor();
    const Tensor dropped = either(others, hidden_by(call, heads.query, heads.key));
    const Tensor scores = index_scores(heads, dropped);
    const Tensor wanted = target.of(in.pairs, index, dropped);
    const ScoreWeights found =
        weights_of(scores, indices.defined() ? statistics_of(scores) : given_statistics(call, in, index));
    const Tensor logarithms = found.logarithms.masked_fill(found.logarithms.isneginf(), 0.0);
    loss = loss + (at::xlogy(wanted, wanted) - wanted * logarithms).sum();
    in.add(index_gradients(heads, found.weights - wanted));
  }
  call.give(in.query_gradient(), in.key_gradient(), in.weights_gradient(), loss);
}

}  // namespace

void define_sparse_attention_gradients(OperatorLibrary& library) {
  library.add({
      .schema =
          "npu::npu_sparse_flash_attention_grad(Tensor query, Tensor key, Tensor? value, Tensor sparse_indices, Tensor "
          "d_out, Tensor out, Tensor softmax_max, Tensor softmax_sum, float scale_value, int sparse_block_size, "
          "Tensor? query_rope=None, Tensor? key_rope=None, Tensor? actual_seq_qlen=None, Tensor? "
          "actual_seq_kvlen=None, str? layout=\"BSND\", int? sparse_mode=3, int? pre_tokens=9223372036854775807, int? "
          "next_tokens=9223372036854775807, int? attention_mode=0) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts_unless({"actual_seq_qlen", "actual_seq_kvlen"}, boxed<&sparse_flash_attention_grad>(),
                             boxed<&sparse_flash_attention_grad_meta>()),
      .traits = {.on_host = {"actual_seq_qlen", "actual_seq_kvlen"}},
      .definition = "Gradients of npu_sparse_flash_attention for query, key, value, query_rope and key_rope, in this "
                    "order. They are computed from d_out, the gradient of out, and from the results out, softmax_max "
                    "and softmax_sum (FlashAttention-2, Dao, 2023). layout, BSND or TND, is that of queries and keys. "
                    "actual_seq_qlen and actual_seq_kvlen are actual_seq_lengths_query and actual_seq_lengths_kv of "
                    "the forward call, and the other arguments have the names of that call. Each gradient has the "
                    "shape and type of its argument; for an argument that is None it is an empty tensor, [0] in the "
                    "type of query. If value is None, the gradient of key includes that of the value. If the forward "
                    "call had sinks, softmax_max and softmax_sum include them; the gradient of sinks is not computed.",
  });
  library.add({
      .schema = "npu::npu_lightning_indexer_grad(Tensor query, Tensor key, Tensor dy, Tensor sparse_indices, Tensor "
                "weights, Tensor? actual_seq_lengths_query=None, Tensor? actual_seq_lengths_key=None, str? "
                "layout=\"BSND\", int? sparse_mode=3, int? pre_tokens=9223372036854775807, int? "
                "next_tokens=9223372036854775807) -> (Tensor, Tensor, Tensor)",
      .kernel = parts_unless({"actual_seq_lengths_query", "actual_seq_lengths_key"}, boxed<&lightning_indexer_grad>(),
                             boxed<&lightning_indexer_grad_meta>()),
      .traits = {.on_host = {"actual_seq_lengths_query", "actual_seq_lengths_key"}},
      .definition = "Gradients of the scores that npu_lightning_indexer returns with return_value, for query, key and "
                    "weights, in their shapes and types. dy is the gradient of the scores and sparse_indices their "
                    "positions, both [B, S, 1, n] or [T, 1, n]; -1 is skipped. layout, BSND or TND, is that of queries "
                    "and keys, and the lengths are those of the forward call. The gradient of relu at 0 is 0. "
                    "sparse_mode, pre_tokens and next_tokens are ignored: sparse_indices name only keys that a query "
                    "sees.",
  });
  library.add({
      .schema =
          "npu::npu_dense_lightning_indexer_grad_kl_loss(Tensor query, Tensor key, Tensor query_index, Tensor "
          "key_index, Tensor weights, Tensor softmax_max, Tensor softmax_sum, Tensor softmax_max_index, Tensor "
          "softmax_sum_index, float scale_value, *, Tensor? query_rope=None, Tensor? key_rope=None, SymInt[]? "
          "actual_seq_qlen=None, SymInt[]? actual_seq_klen=None, str? layout='BSND', int? sparse_mode=3, int? "
          "pre_tokens=9223372036854775807, int? next_tokens=9223372036854775807) -> (Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(boxed<&grad_kl_loss>()),
      .definition = "Loss for training the lightning indexer, with its gradients (DeepSeek-V3.2, 2025, equation 3): "
                    "the sum over queries of the Kullback-Leibler divergence of q from p, sum(p * log(p / q)). q is "
                    "the softmax of the scores of npu_lightning_indexer for query_index, key_index and weights. p is "
                    "softmax(query @ key^T * scale_value), summed over heads and divided by its sum over keys; "
                    "query_rope and key_rope are further elements of its heads. layout is BSND or TND; "
                    "actual_seq_qlen, actual_seq_klen and sparse_mode are actual_seq_lengths_query, "
                    "actual_seq_lengths_key and sparse_mode of npu_lightning_indexer, and keys that a query does not "
                    "see are in neither distribution. pre_tokens and next_tokens are ignored. softmax_max and "
                    "softmax_sum are the statistics of this attention, [B, key heads, S, N / key heads] or, in the "
                    "layout TND, [key heads, T, N / key heads]. softmax_max_index and softmax_sum_index are the "
                    "results of npu_dense_lightning_indexer_softmax_lse. Results: the gradients of query_index, "
                    "key_index and weights, in their shapes and types, and the loss, [1] in float32.",
  });
  library.add({
      .schema =
          "npu::npu_sparse_lightning_indexer_grad_kl_loss(Tensor query, Tensor key, Tensor query_index, Tensor "
          "key_index, Tensor weights, Tensor sparse_indices, Tensor softmax_max, Tensor softmax_sum, float "
          "scale_value, *, Tensor? query_rope=None, Tensor? key_rope=None, SymInt[]? actual_seq_qlen=None, SymInt[]? "
          "actual_seq_klen=None, str? layout='BSND', int? sparse_mode=3, int? pre_tokens=9223372036854775807, int? "
          "next_tokens=9223372036854775807, Tensor? sinks=None) -> (Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(boxed<&grad_kl_loss>()),
      .definition = "npu_dense_lightning_indexer_grad_kl_loss in which p and q are distributions over those keys a "
                    "query sees that sparse_indices selects (DeepSeek-V3.2, 2025, equation 4). sparse_indices is [B, "
                    "S, 1, n] or [T, 1, n] with positions of keys, and -1 selects none. softmax_max and softmax_sum "
                    "are results of npu_sparse_flash_attention, and softmax_max_index and softmax_sum_index are not "
                    "needed. sinks is ignored, because these statistics include it.",
  });
}

}  // namespace npugraph::npu_ops
