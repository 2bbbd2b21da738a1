// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/attention/packed_call.h"

namespace npugraph::npu_ops {

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
