// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/sparse_attention/sparse_call.h"

#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

// `indices` of `count` places plus 1. Those out of range become 0 or count + 1.
Tensor places(const Tensor& indices, const c10::SymInt& count) {
  return indices.to(at::kLong).clamp_min(-1).clamp_max(at::Scalar(count)) + 1;
}

Tensor of_places(const Tensor& tensor, const c10::SymInt& count) { return tensor.narrow_symint(-1, 1, count); }

std::vector<c10::SymInt> sizes_for(const Tensor& indices, const c10::SymInt& count) {
  std::vector<c10::SymInt> out = indices.sym_sizes().vec();
  out.back() = count + 2;
  return out;
}

}  // namespace

Tensor not_chosen(const Tensor& indices, int64_t block_size, const c10::SymInt& columns) {
  const c10::SymInt blocks = (columns + block_size - 1) / block_size;
  const Tensor all = at::ones_symint(sizes_for(indices, blocks), indices.options().dtype(at::kBool));
  const Tensor by_block = of_places(all.scatter(-1, places(indices, blocks), 0), blocks);
  return block_size == 1 ? by_block : by_block.index_select(-1, count_up(indices, columns).div(block_size, "floor"));
}

Tensor at_chosen(const Tensor& values, const Tensor& indices, const c10::SymInt& columns) {
  const Tensor none = at::zeros_symint(sizes_for(indices, columns), values.options());
  return of_places(none.scatter_add(-1, places(indices, columns), values), columns);
}

Tensor shared_by_heads(const Tensor& tensor, const c10::SymInt& heads) {
  const c10::SymInt own = tensor.sym_size(1);
  return own == 1 || own == heads ? tensor : tensor.repeat_interleave_symint(heads / own, 1);
}

namespace {

std::string key_layout(const CallArguments& call) {
  const std::string out = call.text({"layout_key", "layout_kv", "layout"});
  return out.empty() ? "BSND" : out;
}

}  // namespace

Axes query_axes(const CallArguments& call) {
  const std::string own = call.text({"layout_query"}), shared = call.text({"layout"});
  const std::string text = !own.empty() ? own : !shared.empty() ? shared : "BSND";
  const Axes axes = layout_of(call.op(), text).in;
  TORCH_CHECK(axes == Axes::kBSND || axes == Axes::kTND, call.op(), ": ", own.empty() ? "layout" : "layout_query",
              " is \"", text, "\", allowed are BSND and TND");
  return axes;
}

Tensor query_like(const CallArguments& call, const char* name, const Tensor& tensor) {
  return to_heads(call.op(), name, tensor, query_axes(call), 0);
}

StoredRows key_like(const CallArguments& call, const char* name, const Tensor& tensor) {
  const std::string layout = key_layout(call);
  check_dims(call.op(), name, tensor, 3, 4);
  const c10::SymInt heads = tensor.sym_size(-2);
  if (layout == "PA_BSND") return StoredRows(tensor, PageForm::kBnBsND, heads);
  return StoredRows(call.op(), name, tensor, layout_of(call.op(), layout).in, heads);
}

SequencePairs pairs_of(const CallArguments& call, const Tensor& query, const StoredRows& key) {
  SequencePairs::Given given;
  given.query_axes = query_axes(call);
  given.query_lengths = call.integers({"actual_seq_lengths_query", "actual_seq_qlen"});
  given.key_lengths =
      call.integers({"actual_seq_lengths_key", "actual_seq_lengths_kv", "actual_seq_klen", "actual_seq_kvlen"});
  if (key.in_pages()) {
    TORCH_CHECK(given.key_lengths, call.op(), ": layout PA_BSND needs the lengths of keys");
    given.table = call.tensor({"block_table"});
  } else {
    given.key_axes = layout_of(call.op(), key_layout(call)).in;
  }
  return SequencePairs(call.op(), given, query, key);
}

MaskRule sparse_rule_of(const CallArguments& call) {
  const int64_t mode = call.integer({"sparse_mode"}, 3);
  TORCH_CHECK(mode == 0 || mode == 3, call.op(), ": sparse_mode is ", mode, ", allowed are 0 and 3");
  return {.sparse_mode = mode};
}

Tensor hidden_by(const CallArguments& call, const Tensor& query, const Tensor& key) {
  return dropped_by(call.op(), sparse_rule_of(call), Tensor(), query, query.sym_size(2), key.sym_size(2));
}

Tensor by_key_heads(const Tensor& statistics, Axes axes, const c10::SymInt& key_heads) {
  const Tensor grouped = statistics.squeeze(-1).unflatten_symint(1, {key_heads, -1}).transpose(2, 3).contiguous();
  return is_packed(axes) ? grouped.squeeze(0) : grouped;
}

Tensor from_key_heads(const CallArguments& call, const char* name, const Tensor& statistics, const Tensor& query) {
  const Tensor grouped = is_packed(query_axes(call)) ? statistics.unsqueeze(0) : statistics;
  const bool fits = grouped.dim() == 4 && grouped.sym_size(0) == query.sym_size(0) &&
                    grouped.sym_size(2) == query.sym_size(2) &&
                    grouped.sym_size(1) * grouped.sym_size(3) == query.sym_size(1);
  TORCH_CHECK(fits, call.op(), ": ", name, " has shape ", statistics.sym_sizes(),
              ", allowed are [B, key heads, S, heads of each], and without B where the layout is TND, of ",
              query.sym_size(0), " batches, ", query.sym_size(1), " heads and ", query.sym_size(2), " rows");
  return grouped.transpose(2, 3).flatten(1, 2).unsqueeze(-1);
}

MainHeads main_heads(const CallArguments& call) {
  MainHeads out{query_like(call, "query", call.tensor({"query"})), key_like(call, "key", call.tensor({"key"})), {}};
  const Tensor query_rope = call.optional_tensor({"query_rope"}), key_rope = call.optional_tensor({"key_rope"});
  TORCH_CHECK(query_rope.defined() == key_rope.defined(), call.op(), ": query_rope and key_rope go together");
  if (!query_rope.defined()) return out;
  out.query = at::cat({out.query, query_like(call, "query_rope", query_rope)}, -1);
  out.key_rope = key_like(call, "key_rope", key_rope);
  return out;
}

AttentionPieces chosen_attention(const CallArguments& call) {
  const MainHeads heads = main_heads(call);
  const Tensor indices = query_like(call, "sparse_indices", call.tensor({"sparse_indices"}));
  const SequencePairs pairs = pairs_of(call, heads.query, heads.key);
  Weighting shared;
  shared.scale = call.number({"scale_value"});
  shared.sink = call.optional_tensor({"sinks"});
  const auto weighting = [&call, indices, pairs, shared](int64_t index, const Tensor& query, const Tensor& key) {
    const int64_t block_size = call.integer({"sparse_block_size"}, 1);
    const Tensor others = not_chosen(pairs.of_queries(indices, index), block_size, key.sym_size(2));
    const Tensor hidden = hidden_by(call, query, key);
    Weighting out = shared;
    out.dropped = shared_by_heads(hidden.defined() ? others.logical_or(hidden) : others, query.sym_size(1));
    return out;
  };
  return {.op = call.op(),
          .query = heads.query,
          .key = heads.key,
          .value = key_like(call, "value", call.tensor({"value", "key"})),
          .key_rope = heads.key_rope,
          .tiles = {},
          .pairs = pairs,
          .weighting = weighting};
}

}  // namespace npugraph::npu_ops
