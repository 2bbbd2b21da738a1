// SPDX-License-Identifier: Apache-2.0
// The choice of keys for each query by the lightning indexer (DeepSeek-V3.2, 2025).
#include "device/npu_ops/families.h"
#include "device/npu_ops/parts/parts.h"
#include "device/npu_ops/quantisation/microscaling.h"
#include "device/npu_ops/sparse_attention/index_scores.h"
#include "device/npu_ops/sparse_attention/sparse_call.h"

namespace npugraph::npu_ops {
namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

struct Choice {
  Tensor indices, scores;  // [batches, 1, rows, count]; -1 and -inf where there are fewer keys
};

Choice choose(const Tensor& scores, int64_t count) {
  const c10::SymInt columns = scores.sym_size(-1);
  const Tensor enough = columns < count ? longer(scores, -1, count - columns, -kInfinity) : scores;
  const auto [best, indices] = enough.topk(count, -1);
  return {indices.masked_fill(best.isneginf(), -1), best};
}

// Both results are in the layout of queries; indices are int32.
Choice choice_of(const CallArguments& call, const Tensor& query, const StoredRows& key) {
  const Axes axes = query_axes(call);
  const Tensor weights = query_like(call, "weights", call.tensor({"weights"}).unsqueeze(-1));
  const SequencePairs pairs = pairs_of(call, query, key);
  const int64_t count = call.integer({"sparse_count"});
  std::vector<Tensor> indices, values;
  for (int64_t index = 0; index < pairs.count(); ++index) {
    const IndexHeads heads{pairs.of_queries(query, index), pairs.of_keys(key, index), pairs.of_queries(weights, index)};
    const Choice choice = choose(index_scores(heads, hidden_by(call, heads.query, heads.key)), count);
    indices.push_back(choice.indices + 1);  // 0 stands for rows of no query
    values.push_back(choice.scores);
  }
  const Tensor all = pairs.join_queries(indices) - 1;
  return {from_heads(all, axes).to(at::kInt), from_heads(pairs.join_queries(values), axes)};
}

void lightning_indexer(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Tensor& query = call.tensor({"query"});
  const Choice out = choice_of(call, query_like(call, "query", query), key_like(call, "key", call.tensor({"key"})));
  const bool wanted = call.flag({"return_value"});
  call.give(out.indices, wanted ? out.scores.to(query.scalar_type()) : query.new_empty({0}));
}

std::vector<c10::SymInt> sizes_of_choice(const CallArguments& call) {
  std::vector<c10::SymInt> sizes = call.tensor({"query"}).sym_sizes().vec();
  sizes[sizes.size() - 2] = 1;
  sizes.back() = call.integer({"sparse_count"});
  return sizes;
}

void lightning_indexer_meta(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Tensor& query = call.tensor({"query"});
  const std::vector<c10::SymInt> sizes = sizes_of_choice(call);
  call.give(at::empty_symint(sizes, query.options().dtype(at::kInt)),
            call.flag({"return_value"}) ? query.new_empty_symint(sizes) : query.new_empty({0}));
}

void quant_lightning_indexer(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  check_choice(call.op(), "query_quant_mode", call.integer({"query_quant_mode"}), {0});
  check_choice(call.op(), "key_quant_mode", call.integer({"key_quant_mode"}), {0});
  const auto given = [&](const char* name, const char* type) {
    return read_as(call.op(), name, call.tensor({name}), call.optional_integer({type}));
  };
  const Tensor scale = query_like(call, "query_dequant_scale", call.tensor({"query_dequant_scale"}).unsqueeze(-1));
  const Tensor query = wide(query_like(call, "query", given("query", "query_dtype"))) * wide(scale);
  StoredRows key = key_like(call, "key", given("key", "key_dtype"));
  const Tensor& key_scale = call.tensor({"key_dequant_scale"});
  const bool in_pages = key.in_pages();
  key.set_quantisation(call.op(), "key",
                       {.scale = in_pages ? key_scale.flatten(1) : key_scale, .offset = {}, .mode = in_pages ? 4 : 1});
  call.give(choice_of(call, query, key).indices);
}

void quant_lightning_indexer_meta(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  call.give(at::empty_symint(sizes_of_choice(call), call.tensor({"query"}).options().dtype(at::kInt)));
}

// Statistics of rows as [B, 1, S], or [1, T] for packed rows.
Tensor statistics_of_rows(const Tensor& statistics, Axes axes) {
  const Tensor rows = statistics.squeeze(-1).contiguous();
  return is_packed(axes) ? rows.squeeze(0) : rows;
}

void dense_softmax_lse(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Axes axes = query_axes(call);
  const Tensor query = query_like(call, "query_index", call.tensor({"query_index"}));
  const Tensor weights = query_like(call, "weights", call.tensor({"weights"}).unsqueeze(-1));
  const StoredRows key = key_like(call, "key_index", call.tensor({"key_index"}));
  const SequencePairs pairs = pairs_of(call, query, key);
  std::vector<Tensor> maxima, sums;
  for (int64_t index = 0; index < pairs.count(); ++index) {
    const IndexHeads heads{pairs.of_queries(query, index), pairs.of_keys(key, index), pairs.of_queries(weights, index)};
    const ScoreStatistics one = statistics_of(index_scores(heads, hidden_by(call, heads.query, heads.key)));
    maxima.push_back(one.max);
    sums.push_back(one.sum);
  }
  call.give(statistics_of_rows(pairs.join_queries(maxima), axes), statistics_of_rows(pairs.join_queries(sums), axes));
}

}  // namespace

void define_lightning_indexer(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_lightning_indexer(Tensor query, Tensor key, Tensor weights, *, Tensor? "
                "actual_seq_lengths_query=None, Tensor? actual_seq_lengths_key=None, Tensor? block_table=None, str "
                "layout_query=\"BSND\", str layout_key=\"BSND\", int sparse_count=2048, int sparse_mode=3, int "
                "pre_tokens=9223372036854775807, int next_tokens=9223372036854775807, bool return_value=False) -> "
                "(Tensor, Tensor)",
      .kernel = parts_unless({"actual_seq_lengths_query", "actual_seq_lengths_key", "block_table"},
                             boxed<&lightning_indexer>(), boxed<&lightning_indexer_meta>()),
      .traits = {.on_host = {"actual_seq_lengths_query", "actual_seq_lengths_key"}},
      .definition = "The lightning indexer of DeepSeek-V3.2 (2025): for each query, the positions of the sparse_count "
                    "keys with the largest scores, score = sum over heads of weights * relu(query @ key^T). query is "
                    "[B, S, N, D] or [T, N, D], weights is query's shape without D, and key has one head and is in "
                    "the layout BSND or TND, or with layout_key PA_BSND a paged cache, [pages, rows of a page, 1, D], "
                    "with a block_table. actual_seq_lengths_query and actual_seq_lengths_key are cumulative ends of "
                    "sequences in the layout TND, and lengths otherwise. sparse_mode 3 is a causal mask that aligns "
                    "the last query with the last key; 0 is no mask. pre_tokens and next_tokens are ignored. Results: "
                    "the positions in int32, [B, S, 1, sparse_count] or [T, 1, sparse_count], the largest score first "
                    "and -1 where there are fewer keys; with return_value also the scores in the type of query, "
                    "otherwise an empty tensor.",
  });
  library.add({
      .schema = "npu::npu_quant_lightning_indexer(Tensor query, Tensor key, Tensor weights, Tensor "
                "query_dequant_scale, Tensor key_dequant_scale, int query_quant_mode, int key_quant_mode, *, Tensor? "
                "actual_seq_lengths_query=None, Tensor? actual_seq_lengths_key=None, Tensor? block_table=None, str "
                "layout_query=\"BSND\", str layout_key=\"BSND\", int sparse_count=2048, int sparse_mode=3, int "
                "pre_tokens=9223372036854775807, int next_tokens=9223372036854775807, int? query_dtype=None, int? "
                "key_dtype=None) -> Tensor",
      .kernel = whole(boxed<&quant_lightning_indexer>(), boxed<&quant_lightning_indexer_meta>()),
      .traits = {.on_host = {"actual_seq_lengths_query", "actual_seq_lengths_key"}},
      .definition = "npu_lightning_indexer of quantised queries and keys, with the positions as its only result. "
                    "query and key are in int8 or float8 and are multiplied by query_dequant_scale and "
                    "key_dequant_scale, which have one scale per token and head and therefore their shapes without "
                    "the last dimension. query_dtype and key_dtype say how the elements of query and key are read, "
                    "where this is not their own type. query_quant_mode and key_quant_mode must be 0.",
  });
  library.add({
      .schema =
          "npu::npu_dense_lightning_indexer_softmax_lse(Tensor query_index, Tensor key_index, Tensor weights, *, "
          "SymInt[]? actual_seq_qlen=None, SymInt[]? actual_seq_klen=None, str? layout='BSND', int? sparse_mode=3, "
          "int? pre_tokens=9223372036854775807, int? next_tokens=9223372036854775807) -> (Tensor, Tensor)",
      .kernel = parts(boxed<&dense_softmax_lse>()),
      .definition = "Statistics of the softmax over the scores of npu_lightning_indexer, for each query over all keys "
                    "that it sees. The arguments query_index, key_index and weights are the query, key and weights of "
                    "that operator, in the layout BSND or TND. actual_seq_qlen, actual_seq_klen and sparse_mode are "
                    "its actual_seq_lengths_query, actual_seq_lengths_key and sparse_mode; pre_tokens and next_tokens "
                    "are ignored. Results: the largest score, and the sum of exp(score - largest score), both in "
                    "float32, [B, 1, S] or, in the layout TND, [1, T]; -inf and 0 for a query that sees no key.",
  });
}

}  // namespace npugraph::npu_ops
