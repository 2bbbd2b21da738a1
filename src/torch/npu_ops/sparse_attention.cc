// SPDX-License-Identifier: Apache-2.0
// Attention to a choice of keys for each query, and that choice (DeepSeek-V3.2, 2025).
#include <algorithm>
#include <limits>

#include "torch/npu_ops/attention_core.h"
#include "torch/npu_ops/attention_mask.h"
#include "torch/npu_ops/call_arguments.h"
#include "torch/npu_ops/families.h"
#include "torch/npu_ops/stored_rows.h"

namespace npugraph::npu_ops {
namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

Axes query_axes(const CallArguments& call) {
  const Axes axes = layout_of(call.op(), call.text({"layout_query"})).in;
  TORCH_CHECK(axes == Axes::kBSND || axes == Axes::kTND, call.op(), ": layout_query is \"", call.text({"layout_query"}),
              "\", allowed are BSND and TND");
  return axes;
}

Tensor query_like(const CallArguments& call, const char* name, const Tensor& tensor) {
  return to_heads(call.op(), name, tensor, query_axes(call), 0);
}

StoredRows stored_of(const CallArguments& call, const char* name, const Tensor& tensor) {
  const std::string layout = call.text({"layout_key", "layout_kv"});
  check_dims(call.op(), name, tensor, 3, 4);
  const c10::SymInt heads = tensor.sym_size(-2);
  if (layout == "PA_BSND") return StoredRows(tensor, PageForm::kBnBsND, heads);
  return StoredRows(call.op(), name, tensor, layout_of(call.op(), layout).in, heads);
}

struct Places {
  Sequences queries;
  KeyRows keys;
};

Places places_of(const CallArguments& call, const Tensor& query, const StoredRows& key) {
  const char *op = call.op(), *key_name = "the lengths of keys", *query_name = "the lengths of queries";
  const GivenLengths queries = call.integers({"actual_seq_lengths_query"});
  const GivenLengths keys = call.integers({"actual_seq_lengths_key", "actual_seq_lengths_kv"});
  const auto packed = [&](const char* name, const GivenLengths& ends) {
    TORCH_CHECK(ends, op, ": layout TND needs ", name);
    return Sequences::packed(from_ends(op, name, *ends));
  };
  Places out;
  out.queries =
      is_packed(query_axes(call)) ? packed(query_name, queries) : Sequences::batched(op, query_name, queries, query);
  if (key.in_pages()) {
    TORCH_CHECK(keys, op, ": layout PA_BSND needs ", key_name);
    out.keys.table = call.tensor({"block_table"});
    out.keys.lengths = *keys;
  } else {
    const bool with_t = call.text({"layout_key", "layout_kv"}) == "TND";
    out.keys.sequences = with_t ? packed(key_name, keys) : Sequences::batched(op, key_name, keys, key.stored());
    for (int64_t index = 0; index < out.keys.sequences->count(); ++index)
      out.keys.lengths.push_back(out.keys.sequences->length(index));
  }
  TORCH_CHECK(static_cast<int64_t>(out.keys.lengths.size()) == out.queries.count(), op, ": there are ",
              out.queries.count(), " sequences of queries and ", out.keys.lengths.size(), " of keys");
  return out;
}

MaskRule rule_of(const CallArguments& call) {
  const int64_t mode = call.integer({"sparse_mode"});
  TORCH_CHECK(mode == 0 || mode == 3, call.op(), ": sparse_mode is ", mode, ", allowed are 0 and 3");
  return {.sparse_mode = mode};
}

struct Choice {
  Tensor indices, scores;  // [1, 1, rows, count], of -1 and -inf where there are fewer keys
};

Choice choose(const Tensor& scores, int64_t count) {
  const int64_t found = std::min(count, scores.size(-1));
  const auto [best, indices] = scores.topk(found, -1);
  const Tensor real = indices.masked_fill(best.isneginf(), -1);
  return {at::constant_pad_nd(real, {0, count - found}, -1),
          at::constant_pad_nd(best, {0, count - found}, -std::numeric_limits<double>::infinity())};
}

void lightning_indexer(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Axes axes = query_axes(call);
  const Tensor query = query_like(call, "query", call.tensor({"query"}));
  const Tensor weights = query_like(call, "weights", call.tensor({"weights"}).unsqueeze(-1));
  const StoredRows key = stored_of(call, "key", call.tensor({"key"}));
  const Places places = places_of(call, query, key);
  const MaskRule rule = rule_of(call);
  const int64_t count = call.integer({"sparse_count"});
  std::vector<Tensor> indices, values;
  for (int64_t index = 0; index < places.queries.count(); ++index) {
    const Tensor rows = places.queries.part(query, index), keys = places.keys.of(key, index);
    const Tensor products = wide(rows).matmul(wide(keys).transpose(-1, -2)).relu();
    Tensor scores = (products * wide(places.queries.part(weights, index))).sum(1, /*keepdim=*/true);
    const Tensor dropped = dropped_by(call.op(), rule, Tensor(), scores, scores.size(-2), scores.size(-1));
    if (dropped.defined()) scores = scores.masked_fill(dropped, -std::numeric_limits<double>::infinity());
    const Choice choice = choose(scores, count);
    indices.push_back(choice.indices + 1);  // rows of no query have 0
    values.push_back(choice.scores);
  }
  const Tensor all = places.queries.join(indices, query.size(2)) - 1;
  const Tensor& given = call.tensor({"query"});
  Tensor scores = given.new_empty({0});
  if (call.flag({"return_value"}))
    scores = from_heads(places.queries.join(values, query.size(2)), axes).to(given.scalar_type());
  call.give(from_heads(all, axes).to(at::kInt), scores);
}

void lightning_indexer_meta(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Tensor& query = call.tensor({"query"});
  std::vector<c10::SymInt> sizes = query.sym_sizes().vec();
  sizes[sizes.size() - 2] = 1;
  sizes.back() = call.integer({"sparse_count"});
  call.give(at::empty_symint(sizes, query.options().dtype(at::kInt)),
            call.flag({"return_value"}) ? query.new_empty_symint(sizes) : query.new_empty({0}));
}

// bool [1, key heads, rows, columns]: not one of the blocks of columns that `indices`, [1, key heads, rows, n], name; -1 names
// none.
Tensor not_chosen(const Tensor& indices, int64_t block_size, int64_t columns) {
  const int64_t blocks = (columns + block_size - 1) / block_size;
  const Tensor at = indices.to(at::kLong).masked_fill(indices.lt(0).logical_or(indices.ge(blocks)), blocks);
  const Tensor none = at::ones({1, indices.size(1), indices.size(2), blocks + 1}, indices.options().dtype(at::kBool));
  return none.scatter(-1, at, 0).narrow(-1, 0, blocks).repeat_interleave(block_size, -1).narrow(-1, 0, columns);
}

// [batches, heads, rows, 1] -> [batches, key heads, rows, heads of each], or without batches where rows are packed.
Tensor by_key_heads(const Tensor& statistics, Axes axes, const c10::SymInt& key_heads) {
  const Tensor grouped = statistics.squeeze(-1).unflatten_symint(1, {key_heads, -1}).transpose(2, 3).contiguous();
  return is_packed(axes) ? grouped.squeeze(0) : grouped;
}

void sparse_flash_attention(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Axes axes = query_axes(call);
  Tensor query = query_like(call, "query", call.tensor({"query"}));
  const Tensor query_rope = call.optional_tensor({"query_rope"}), key_rope = call.optional_tensor({"key_rope"});
  TORCH_CHECK(query_rope.defined() == key_rope.defined(), call.op(), ": query_rope and key_rope go together");
  if (query_rope.defined()) query = at::cat({query, query_like(call, "query_rope", query_rope)}, -1);
  const StoredRows key = stored_of(call, "key", call.tensor({"key"}));
  const StoredRows value = stored_of(call, "value", call.tensor({"value", "key"}));
  std::optional<StoredRows> rope;
  if (key_rope.defined()) rope = stored_of(call, "key_rope", key_rope);
  const Tensor indices = query_like(call, "sparse_indices", call.tensor({"sparse_indices"}));
  const Places places = places_of(call, query, key);
  const int64_t block_size = call.integer({"sparse_block_size"}, 1);
  const MaskRule rule = rule_of(call);
  Weighting weighting;
  weighting.scale = call.number({"scale_value"});
  weighting.sink = call.optional_tensor({"sinks"});
  std::vector<Tensor> results, maxima, sums;
  for (int64_t index = 0; index < places.queries.count(); ++index) {
    const Tensor rows = places.queries.part(query, index);
    Tensor keys = places.keys.of(key, index);
    if (rope) keys = at::cat({keys, places.keys.of(*rope, index)}, -1);
    check_heads(call.op(), rows, keys, places.keys.of(value, index));
    const int64_t columns = keys.size(2);
    const Tensor later = dropped_by(call.op(), rule, Tensor(), rows, rows.size(2), columns);
    const Tensor others = not_chosen(places.queries.part(indices, index), block_size, columns);
    const Tensor dropped = later.defined() ? others.logical_or(later) : others;
    weighting.dropped = dropped.repeat_interleave(rows.size(1) / dropped.size(1), 1);
    const Attention one = attend_with_statistics(rows, keys, places.keys.of(value, index), weighting);
    results.push_back(one.result);
    maxima.push_back(one.max);
    sums.push_back(one.sum);
  }
  const auto joined = [&](const std::vector<Tensor>& parts) { return places.queries.join(parts, query.size(2)); };
  const Tensor result = from_heads(joined(results), axes);
  const Tensor none = result.new_empty({0}, result.options().dtype(at::kFloat));
  const c10::SymInt heads = call.tensor({"key"}).sym_size(-2);
  const bool wanted = call.flag({"return_softmax_lse"});
  call.give(result, wanted ? by_key_heads(joined(maxima), axes, heads).to(at::kFloat) : none,
            wanted ? by_key_heads(joined(sums), axes, heads).to(at::kFloat) : none);
}

void sparse_flash_attention_meta(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Axes axes = query_axes(call);
  const Tensor &query = call.tensor({"query"}), &value = call.tensor({"value", "key"});
  std::vector<c10::SymInt> sizes = query.sym_sizes().vec();
  sizes.back() = value.sym_size(-1);
  const auto numbers = query.options().dtype(at::kFloat);
  Tensor statistics = at::empty({0}, numbers);
  if (call.flag({"return_softmax_lse"})) {
    const Tensor heads = query_like(call, "query", query);
    statistics = by_key_heads(at::empty_symint({heads.sym_size(0), heads.sym_size(1), heads.sym_size(2), 1}, numbers),
                              axes, call.tensor({"key"}).sym_size(-2));
  }
  call.give(query.new_empty_symint(sizes), statistics, at::empty_like(statistics));
}

}  // namespace

void define_sparse_attention(Definitions& npu) {
  npu.computed(
      "npu_lightning_indexer", boxed<&lightning_indexer>(), boxed<&lightning_indexer_meta>(),
      "for each query the sparse_count keys with the largest sums over heads of weights * relu(query @ key^T), the "
      "largest first, -1 where there are fewer. Results: their numbers in int32, and, with return_value, the sums. "
      "sparse_mode 3: of keys up to the query's position");
  npu.computed("npu_sparse_flash_attention", boxed<&sparse_flash_attention>(), boxed<&sparse_flash_attention_meta>(),
               "attention of each query to the blocks of keys that sparse_indices name. Results: this, and, with "
               "return_softmax_lse, maxima and sums of the softmax, [B, key heads, S, heads of each] or without B");
}

}  // namespace npugraph::npu_ops
