// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/attention/packed_attention.h"

#include "device/npu_ops/attention/attention_layout.h"
#include "device/npu_ops/attention/attention_mask.h"
#include "device/npu_ops/attention/varlen_call.h"

namespace npugraph::npu_ops {
namespace {

// Position and size of one sequence.
struct SequencePlace {
  int64_t index, first_row, rows, columns;
};

// The part of the mask for one sequence, [1, heads or 1, rows, columns]; undefined if the mask is
// smaller than the sequence.
Tensor rows_of_mask(const PackedMask& given, const SequencePlace& place, int64_t all_rows) {
  const Tensor& mask = given.mask;
  const Tensor all = mask.dim() == 2 ? mask.unsqueeze(0) : mask;
  const Tensor one = all.select(0, all.size(0) == 1 ? 0 : place.index);
  const bool is_packed = !given.by_position && mask.size(-2) == all_rows;
  const int64_t first = is_packed ? place.first_row : place.columns - place.rows;
  if (one.size(-1) < place.columns || one.size(-2) < first + place.rows) return {};
  const Tensor rows = one.narrow(-2, first, place.rows).narrow(-1, 0, place.columns);
  return rows.dim() == 2 ? rows.unsqueeze(0).unsqueeze(0) : rows.unsqueeze(0);
}

Tensor after_position(const Tensor& like, const SequencePlace& place) {
  return dropped_by("", {.sparse_mode = 3}, Tensor(), like, place.rows, place.columns);
}

Tensor distances(const Tensor& slopes, const SequencePlace& place) {
  const auto options = slopes.options().dtype(at::kFloat);
  const Tensor row = at::arange(place.columns - place.rows, place.columns, options).unsqueeze(1);
  return wide(slopes).view({1, -1, 1, 1}) * (at::arange(place.columns, options) - row);
}

Weighting weighting(const PackedCall& call, const SequencePlace& place) {
  const PackedMask& given = call.mask;
  Weighting out{.scale = call.scale};
  if (given.slopes.defined()) {  // a mask is a sample of the same distances, or of the triangle
    out.bias = distances(given.slopes, place);
    out.dropped = after_position(call.query, place);
    return out;
  }
  const Tensor mask = given.mask.defined() ? rows_of_mask(given, place, call.query.size(2)) : Tensor();
  if (given.causal || (given.mask.defined() && !mask.defined())) {
    out.dropped = after_position(call.query, place);
  } else if (mask.defined()) {
    out.dropped = mask.gt(0);
    if (mask.is_floating_point()) out.bias = mask.clamp_max(0);
  }
  return out;
}

// Nothing if rows of a mask or ALiBi decide which keys a query sees, or generated code does not compute such a call.
std::optional<Attention> attend_generated(const PackedCall& call, const Sequences& queries, bool wants_lse) {
  if (call.mask.slopes.defined() || call.mask.mask.defined()) return std::nullopt;
  return attend_varlen({.query = call.query,
                        .query_rope = {},
                        .queries = queries,
                        .key = call.key,
                        .value = call.value,
                        .key_rope = call.key_rope ? &*call.key_rope : nullptr,
                        .keys = call.keys,
                        .before = std::nullopt,
                        .after = call.mask.causal ? std::make_optional<int64_t>(0) : std::nullopt,
                        .scale = call.scale,
                        .wants_lse = wants_lse});
}

}  // namespace

PackedResult attend_packed(const char* op, const PackedCall& call, bool wants_lse) {
  const Sequences queries = Sequences::packed(call.query_lengths);
  TORCH_CHECK(call.query_lengths.size() == call.keys.lengths.size(), op, ": there are ", call.query_lengths.size(),
              " sequences of queries and ", call.keys.lengths.size(), " of keys");
  if (const auto all = attend_generated(call, queries, wants_lse))
    return {from_heads(all->result, Axes::kTND), wants_lse ? from_heads(all->max, Axes::kTND) : Tensor()};
  std::vector<Tensor> results, lses;
  int64_t first_row = 0;
  for (int64_t index = 0; index < queries.count(); ++index) {
    const SequencePlace place{index, first_row, queries.length(index), call.keys.lengths[index]};
    first_row += place.rows;
    const Tensor query = queries.part(call.query, index);
    Tensor key = call.keys.of(call.key, index).to(query.scalar_type());
    if (call.key_rope) key = at::cat({key, call.keys.of(*call.key_rope, index).to(query.scalar_type())}, -1);
    const Tensor value = call.keys.of(call.value, index).to(query.scalar_type());
    check_heads(op, query, key, value);
    const Weighting how = weighting(call, place);
    const Attention one = wants_lse ? attend_with_statistics(query, key, value, how)
                                    : Attention{.result = attend(query, key, value, how)};
    results.push_back(one.result);
    if (wants_lse) lses.push_back(one.lse());
  }
  const auto joined = [&](const std::vector<Tensor>& parts) {
    return from_heads(queries.join(parts, call.query.size(2)), Axes::kTND);
  };
  return {joined(results), wants_lse ? joined(lses) : Tensor()};
}

int64_t heads_of(const CallArguments& call) { return call.integer({"num_heads", "q_headnum", "head_num"}); }

namespace {

int64_t key_heads_of(const CallArguments& call) {
  const int64_t given = call.integer({"num_kv_heads", "kv_headnum", "kv_head_num"});
  return given == 0 ? heads_of(call) : given;
}

PackedMask mask_of(const CallArguments& call) {
  const std::string type = call.text({"mask_type"});
  const bool causal = type.find("causal") != type.npos || type.find("triu") != type.npos;
  const bool none = type == "no_mask";
  return {.mask = none || causal ? Tensor() : call.optional_tensor({"mask"}),
          .causal = causal,
          .slopes = call.optional_tensor({"slopes"})};
}

PackedCall packed_call(const CallArguments& call, const Tensor& query, const StoredRows& key, const StoredRows& value) {
  PackedCall out{query, {}, key, value, std::nullopt, {}, 1, {}};
  out.scale = call.number({"scale_value", "qk_scale"}, 1);
  out.mask = mask_of(call);
  return out;
}

}  // namespace

Tensor packed_rows(const CallArguments& call, const char* name, const Tensor& tensor, int64_t heads) {
  check_dims(call.op(), name, tensor, 2, 3);
  const Tensor rows = tensor.dim() == 3 ? tensor : tensor.unflatten_symint(1, {heads, tensor.sym_size(1) / heads});
  return to_heads(call.op(), name, rows, Axes::kTND, heads);
}

std::vector<int64_t> lengths_of(const CallArguments& call, CallArguments::Names names) {
  const auto out = call.integers(names);
  TORCH_CHECK(out, call.op(), ": ", *names.begin(), " is missing");
  return *out;
}

bool is_in_pieces(const CallArguments& call, const char* name, const Tensor& cache, const c10::SymInt& size) {
  check_dims(call.op(), name, cache, 4, 4);
  const int64_t heads = key_heads_of(call);
  if (cache.sym_size(2) == heads && cache.sym_size(3) == size) return false;
  TORCH_CHECK(cache.sym_size(1) * cache.sym_size(3) == size * heads, call.op(), ": ", name, " has shape ",
              cache.sym_sizes(), ", allowed are pages of (block size, ", heads, ", ", size, ") and (", size * heads,
              " / n, block size, n)");
  return true;
}

StoredRows cache_of(const CallArguments& call, const char* name, const Tensor& cache, bool in_pieces,
                    std::optional<int64_t> first) {
  check_dims(call.op(), name, cache, 4, 4);
  const int64_t heads = key_heads_of(call);
  if (!in_pieces) return StoredRows(first ? cache.narrow(3, 0, *first) : cache, PageForm::kBnBsND, heads);
  const Tensor pieces = cache.unflatten_symint(1, {heads, cache.sym_size(1) / heads});
  if (!first) return StoredRows(pieces, PageForm::kNz, heads);
  const c10::SymInt length = cache.sym_size(3);
  TORCH_CHECK(*first % length == 0, call.op(), ": ", *first, " elements of each head of ", name,
              " are no whole pieces of ", length);
  return StoredRows(pieces.narrow_symint(2, 0, *first / length), PageForm::kNz, heads);
}

PackedCall cache_call(const CallArguments& call, const Tensor& query, const GivenLengths& query_lengths,
                      const StoredRows& key, const StoredRows& value) {
  PackedCall out = packed_call(call, query, key, value);
  out.keys.table = call.tensor({"block_table", "block_tables"});
  out.keys.lengths = lengths_of(call, {"context_lens", "kv_seqlen"});
  out.query_lengths.assign(out.keys.lengths.size(), 1);
  if (query_lengths) out.query_lengths = *query_lengths;
  return out;
}

PackedCall rows_call(const CallArguments& call, const Tensor& query, const std::vector<int64_t>& query_lengths,
                     const std::vector<int64_t>& key_lengths, const StoredRows& key, const StoredRows& value) {
  PackedCall out = packed_call(call, query, key, value);
  out.mask.by_position = true;
  out.query_lengths = query_lengths;
  out.keys.lengths = key_lengths;
  out.keys.sequences = Sequences::packed(key_lengths);
  return out;
}

StoredRows packed_keys(const CallArguments& call, const char* name) {
  const int64_t heads = key_heads_of(call);
  return StoredRows(call.op(), name, packed_rows(call, name, call.tensor({name}), heads), Axes::kBNSD, heads);
}

namespace {

// Pages of (block size, heads * size) as pages of (block size, heads, size).
Tensor pages_in_heads(const CallArguments& call, const char* name, const Tensor& cache) {
  check_dims(call.op(), name, cache, 3, 4);
  if (cache.dim() == 4) return cache;
  const int64_t heads = key_heads_of(call);
  return cache.unflatten_symint(2, {heads, cache.sym_size(2) / heads});
}

}  // namespace

PackedCall cache_call(const CallArguments& call) {
  const Tensor query = packed_rows(call, "query", call.tensor({"query"}), heads_of(call));
  const Tensor key = pages_in_heads(call, "key_cache", call.tensor({"key_cache", "key"}));
  const Tensor value = call.optional_tensor({"value_cache", "value"});
  const bool in_pieces = is_in_pieces(call, "key_cache", key, query.sym_size(3));
  const StoredRows keys = cache_of(call, "key_cache", key, in_pieces);
  const StoredRows values =
      cache_of(call, "value_cache", value.defined() ? pages_in_heads(call, "value_cache", value) : key, in_pieces);
  return cache_call(call, query, call.integers({"seq_len", "seqlen"}), keys, values);
}

}  // namespace npugraph::npu_ops
