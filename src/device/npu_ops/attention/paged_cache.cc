// SPDX-License-Identifier: Apache-2.0
// Caches of pages, addressed by tables of slots and blocks (Kwon et al., PagedAttention, 2023).
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/parts/rows.h"

namespace npugraph::npu_ops {
namespace {

// `cache` as (pages, places, ...), where places have the shape of rows of `tokens`. Callers with the layout Norm leave
// cache_mode at its default, PA_NZ, so the shape of the cache decides.
Tensor pages_for(const char* op, const char* name, const Tensor& cache, const Tensor& tokens, bool must_be_norm) {
  check_dims(op, name, cache, 3, 4);
  const auto row = tokens.sym_sizes().slice(1);
  const bool is_norm = cache.sym_sizes().slice(2).equals(row);
  const bool is_pieces = !must_be_norm && cache.dim() == 4 && tokens.dim() == 3 &&
                         cache.sym_size(1) * cache.sym_size(3) == row[0] * row[1];
  TORCH_CHECK(is_norm || is_pieces, op, ": ", name, " has shape ", cache.sym_sizes(), ", and tokens have shape ", row,
              ": allowed are pages of (places, heads, dim)", must_be_norm ? "" : " or (heads * dim / n, places, n)");
  return is_norm ? cache : pages_of_pieces(cache);
}

void check_not_compressed(const char* op, const OptionalTensor& compress_lens,
                          const OptionalTensor& compress_seq_offsets, const OptionalTensor& seq_lens) {
  for (const OptionalTensor* each : {&compress_lens, &compress_seq_offsets, &seq_lens})
    TORCH_CHECK_NOT_IMPLEMENTED(!*each || !(*each)->defined(), op,
                                ": compress_lens, compress_seq_offsets and seq_lens are not supported on the host");
}

void put_in_slots(const char* op, const char* name, const Tensor& tokens, const Tensor& cache, const Tensor& slots,
                  bool must_be_norm) {
  check_dims(op, "slot_mapping", slots, 1, 1);
  check_dims(op, "key and value", tokens, 2, 3);
  put_in_pages(pages_for(op, name, cache, tokens, must_be_norm), tokens, slots);
}

void put_both(const char* op, const Tensor& key, const Tensor& value, const Tensor& key_cache,
              const Tensor& value_cache, const Tensor& slots, std::optional<c10::string_view> cache_mode) {
  const c10::string_view mode = cache_mode.value_or("Norm");
  TORCH_CHECK(mode == "Norm" || mode == "PA_NZ", op, ": cache_mode is '", mode, "', allowed are 'Norm' and 'PA_NZ'");
  put_in_slots(op, "key_cache", key, key_cache, slots, mode == "Norm");
  put_in_slots(op, "value_cache", value, value_cache, slots, mode == "Norm");
}

void scatter_pa_kv_cache(const Tensor& key, const Tensor& value, Tensor& key_cache, Tensor& value_cache,
                         const Tensor& slot_mapping, const OptionalTensor& compress_lens,
                         const OptionalTensor& compress_seq_offsets, const OptionalTensor& seq_lens,
                         std::optional<c10::string_view> cache_mode) {
  check_not_compressed("npu_scatter_pa_kv_cache", compress_lens, compress_seq_offsets, seq_lens);
  put_both("npu_scatter_pa_kv_cache", key, value, key_cache, value_cache, slot_mapping, cache_mode);
}

std::tuple<Tensor, Tensor> scatter_pa_kv_cache_functional(
    const Tensor& key, const Tensor& value, const Tensor& key_cache, const Tensor& value_cache,
    const Tensor& slot_mapping, const OptionalTensor& compress_lens, const OptionalTensor& compress_seq_offsets,
    const OptionalTensor& seq_lens, std::optional<c10::string_view> cache_mode) {
  check_not_compressed("npu_scatter_pa_kv_cache_functional", compress_lens, compress_seq_offsets, seq_lens);
  const Tensor keys = key_cache.clone(), values = value_cache.clone();
  put_both("npu_scatter_pa_kv_cache_functional", key, value, keys, values, slot_mapping, cache_mode);
  return {keys, values};
}

Tensor& scatter_pa_cache(const Tensor& key, const Tensor& slot_mapping, const OptionalTensor& compress_lens,
                         const OptionalTensor& compress_seq_offsets, const OptionalTensor& seq_lens,
                         Tensor& key_cache) {
  check_not_compressed("npu_scatter_pa_cache", compress_lens, compress_seq_offsets, seq_lens);
  put_in_slots("npu_scatter_pa_cache", "key_cache", key, key_cache, slot_mapping, /*must_be_norm=*/true);
  return key_cache;
}

void reshape_and_cache(const Tensor& key, const Tensor& value, Tensor& key_cache, Tensor& value_cache,
                       const Tensor& slot_indices) {
  put_both("_npu_reshape_and_cache", key, value, key_cache, value_cache, slot_indices, "Norm");
}

void reshape_and_cache_siso(const Tensor& key, Tensor& key_cache, const Tensor& slot_indices) {
  put_in_slots("_npu_reshape_and_cache_siso", "key_cache", key, key_cache, slot_indices, /*must_be_norm=*/true);
}

// Sequence and position of rows of packed sequences.
struct TokenSource {
  Tensor sequence, position;  // of each row; position counts from the start of the sequence
  Tensor exists;              // whether a sequence has that row
};

TokenSource token_sources(const Tensor& seq_lens, const c10::SymInt& sequences, bool is_cumulative,
                          const c10::SymInt& rows) {
  Tensor ends = seq_lens.to(at::kLong);
  if (!is_cumulative)
    ends = ends.cumsum(0);
  else if (ends.sym_size(0) == sequences + 1)
    ends = ends.narrow_symint(0, 1, sequences);
  const Tensor row = at::arange(rows, ends.options());
  const Tensor found = at::searchsorted(ends, row, /*out_int32=*/false, /*right=*/true);
  const Tensor sequence = found.clamp_max(sequences - 1);
  const Tensor starts = at::cat({at::zeros_like(ends.narrow(0, 0, 1)), ends.narrow_symint(0, 0, sequences - 1)});
  return {sequence, row - starts.index_select(0, sequence), found < sequences};
}

struct PagePlace {
  Tensor page, offset;
  Tensor exists;  // whether the table names a page
};

PagePlace page_place_of(const TokenSource& source, const Tensor& block_tables, const OptionalTensor& seq_offset,
                        const Tensor& pages) {
  Tensor position = source.position;
  if (seq_offset && seq_offset->defined())
    position = position + seq_offset->to(at::kLong).index_select(0, source.sequence);
  const c10::SymInt places = pages.sym_size(1);
  const Tensor entry = position.div(places, "floor");
  const Tensor in_table = entry < block_tables.sym_size(1);
  const Tensor page =
      block_tables.to(at::kLong).index({source.sequence, entry.clamp_max(block_tables.sym_size(1) - 1)});
  const Tensor exists = in_table.logical_and(page >= 0).logical_and(page < pages.sym_size(0));
  return {at::where(exists, page, 0), position.remainder(places), exists};
}

Tensor per_row(const Tensor& of_each_row) { return of_each_row.unsqueeze(-1).unsqueeze(-1); }

void take_tokens(const char* op, const char* name, const Tensor& cache, const Tensor& block_tables,
                 const TokenSource& source, const OptionalTensor& seq_offset, const Tensor& tokens) {
  check_dims(op, "key and value", tokens, 3, 3);
  const Tensor pages = pages_for(op, name, cache, tokens, /*must_be_norm=*/false);
  const PagePlace place = page_place_of(source, block_tables, seq_offset, pages);
  const Tensor rows = at::where(per_row(place.exists), pages.index({place.page, place.offset}).view_as(tokens), 0);
  tokens.copy_(at::where(per_row(source.exists), rows.to(tokens.scalar_type()), tokens));
}

void gather_both(const char* op, const Tensor& key_cache, const Tensor& value_cache, const Tensor& block_tables,
                 const Tensor& seq_lens, const Tensor& key, const Tensor& value, const OptionalTensor& seq_offset,
                 bool is_cumulative) {
  check_dims(op, "block_tables", block_tables, 2, 2);
  check_dims(op, "seq_lens", seq_lens, 1, 1);
  const TokenSource source = token_sources(seq_lens, block_tables.sym_size(0), is_cumulative, key.sym_size(0));
  take_tokens(op, "key_cache", key_cache, block_tables, source, seq_offset, key);
  take_tokens(op, "value_cache", value_cache, block_tables, source, seq_offset, value);
}

void gather_pa_kv_cache(const Tensor& key_cache, const Tensor& value_cache, const Tensor& block_tables,
                        const Tensor& seq_lens, Tensor& key, Tensor& value, const OptionalTensor& seq_offset,
                        bool is_seq_lens_cumsum) {
  gather_both("npu_gather_pa_kv_cache", key_cache, value_cache, block_tables, seq_lens, key, value, seq_offset,
              is_seq_lens_cumsum);
}

std::tuple<Tensor, Tensor> gather_pa_kv_cache_functional(const Tensor& key_cache, const Tensor& value_cache,
                                                         const Tensor& block_tables, const Tensor& seq_lens,
                                                         const Tensor& key, const Tensor& value,
                                                         const OptionalTensor& seq_offset, bool is_seq_lens_cumsum) {
  const Tensor keys = key.clone(), values = value.clone();
  gather_both("npu_gather_pa_kv_cache_functional", key_cache, value_cache, block_tables, seq_lens, keys, values,
              seq_offset, is_seq_lens_cumsum);
  return {keys, values};
}

void advance_step_flashattn(Tensor& input_tokens, const Tensor& sampled_token_ids, Tensor& input_positions,
                            Tensor& seq_lens, Tensor& slot_mapping, const Tensor& block_tables, int64_t num_seqs,
                            int64_t num_queries, int64_t block_size, const OptionalTensor& spec_token,
                            const OptionalTensor& accepted_num) {
  const char* op = "npu_advance_step_flashattn";
  TORCH_CHECK_NOT_IMPLEMENTED(!(spec_token && spec_token->defined()) && !(accepted_num && accepted_num->defined()), op,
                              ": spec_token and accepted_num are not supported on the host");
  TORCH_CHECK(num_queries <= num_seqs, op, ": num_queries is ", num_queries, ", more than num_seqs, ", num_seqs);
  const Tensor position = seq_lens.narrow(0, 0, num_queries).to(at::kLong, /*non_blocking=*/false, /*copy=*/true);
  const Tensor query = at::arange(num_queries, position.options());
  const Tensor page = block_tables.index({query, position.div(block_size, "floor")}).to(at::kLong);
  input_tokens.narrow(0, 0, num_queries).copy_(sampled_token_ids.flatten().narrow(0, 0, num_queries));
  input_positions.narrow(0, 0, num_queries).copy_(position);
  seq_lens.narrow(0, 0, num_queries).add_(1);
  slot_mapping.narrow(0, 0, num_queries).copy_(page * block_size + position.remainder(block_size));
}

}  // namespace

void define_paged_cache(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_scatter_pa_kv_cache(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, "
                "Tensor slot_mapping, *, Tensor? compress_lens=None, Tensor? compress_seq_offsets=None, Tensor? "
                "seq_lens=None, str? cache_mode='PA_NZ') -> ()",
      .kernel = parts(&scatter_pa_kv_cache),
      .traits = {.writes_rows_of = {"key_cache", "value_cache"},
                 .on_host = {"compress_lens", "seq_lens"},
                 .in_pool = true},
      .definition = "Writes the keys and values of new tokens into a paged KV cache, in place: key[i] and value[i] go "
                    "to row slot % block size of block slot // block size, for slot = slot_mapping[i]. Negative slots "
                    "are skipped. key and value are [T, N, D], and caches [blocks, block size, N, D] or, with "
                    "cache_mode PA_NZ (the default), also [blocks, N * D / n, block size, n]; their shape decides. "
                    "cache_mode Norm allows the first layout only. Rows [T, D] go with caches [blocks, block size, "
                    "D]. Calls with compress_lens, compress_seq_offsets or seq_lens raise NotImplementedError.",
  });
  library.add({
      .schema = "npu::npu_scatter_pa_kv_cache_functional(Tensor key, Tensor value, Tensor key_cache, Tensor "
                "value_cache, Tensor slot_mapping, *, Tensor? compress_lens=None, Tensor? compress_seq_offsets=None, "
                "Tensor? seq_lens=None, str? cache_mode='PA_NZ') -> (Tensor, Tensor)",
      .kernel = composite(&scatter_pa_kv_cache_functional),
      .traits = {.on_host = {"compress_lens", "seq_lens"}},
      .definition = "npu_scatter_pa_kv_cache that leaves key_cache and value_cache as they are and returns changed "
                    "copies of them.",
  });
  library.add({
      .schema = "npu::npu_scatter_pa_cache.value(Tensor key, Tensor slot_mapping, *, Tensor? compress_lens=None, "
                "Tensor? compress_seq_offsets=None, Tensor? seq_lens=None, Tensor(a!) key_cache) -> Tensor(a!)",
      .kernel = composite(&scatter_pa_cache),
      .traits = {.on_host = {"compress_lens", "seq_lens"}},
      .definition = "npu_scatter_pa_kv_cache for key and key_cache alone, with cache_mode Norm. Returns key_cache.",
  });
  library.add({
      .schema =
          "npu::npu_gather_pa_kv_cache(Tensor key_cache, Tensor value_cache, Tensor block_tables, Tensor seq_lens, "
          "Tensor(a!) key, Tensor(b!) value, *, Tensor? seq_offset=None, bool is_seq_lens_cumsum=False) -> ()",
      .kernel = parts(&gather_pa_kv_cache),
      .traits = {.on_host = {"seq_lens"}},
      .definition = "Gathers the tokens of each sequence from a paged KV cache into packed rows of key and value, in "
                    "place. The caches are [blocks, block size, N, D] or [blocks, N * D / n, block size, n], key and "
                    "value [T, N, D], block_tables [B, blocks of a sequence] and seq_lens [B]. Sequence b is read "
                    "from position seq_offset[b] on, or from 0. Positions without a block in block_tables give zeros, "
                    "and rows after the last sequence stay as they are. With is_seq_lens_cumsum, seq_lens has "
                    "cumulative ends, with or without a 0 before them.",
  });
  library.add({
      .schema = "npu::npu_gather_pa_kv_cache_functional(Tensor key_cache, Tensor value_cache, Tensor block_tables, "
                "Tensor seq_lens, Tensor key, Tensor value, *, Tensor? seq_offset=None, bool is_seq_lens_cumsum=False) "
                "-> (Tensor, Tensor)",
      .kernel = composite(&gather_pa_kv_cache_functional),
      .traits = {.on_host = {"seq_lens"}},
      .definition = "npu_gather_pa_kv_cache that leaves key and value as they are and returns changed copies of them.",
  });
  library.add({
      .schema = "npu::npu_advance_step_flashattn(Tensor(a!) input_tokens, Tensor sampled_token_ids, Tensor(b!) "
                "input_positions, Tensor(c!) seq_lens, Tensor(d!) slot_mapping, Tensor block_tables, int num_seqs, int "
                "num_queries, int block_size, *, Tensor? spec_token=None, Tensor? accepted_num=None) -> ()",
      .kernel = parts(&advance_step_flashattn),
      .traits = {.on_host = {"seq_lens"}},
      .definition = "Advances num_queries sequences by one decoding step, in place (advance_step of vLLM). With "
                    "position = seq_lens[i] before the step, input_tokens[i] = sampled_token_ids[i], "
                    "input_positions[i] = position, seq_lens[i] += 1, and slot_mapping[i] = block_tables[i, position "
                    "// block_size] * block_size + position % block_size. sampled_token_ids is [num_queries, 1], and "
                    "num_seqs must be at least num_queries. Calls with spec_token or accepted_num raise "
                    "NotImplementedError.",
  });
  library.add({
      .schema = "atb::_npu_reshape_and_cache(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, "
                "Tensor slot_indices) -> ()",
      .kernel = parts(&reshape_and_cache),
      .traits = {.writes_rows_of = {"key_cache", "value_cache"}, .in_pool = true},
      .definition = "npu_scatter_pa_kv_cache with cache_mode Norm, whose slots are slot_indices.",
  });
  library.add({
      .schema = "atb::_npu_reshape_and_cache_siso(Tensor key, Tensor(a!) key_cache, Tensor slot_indices) -> ()",
      .kernel = parts(&reshape_and_cache_siso),
      .traits = {.writes_rows_of = {"key_cache"}, .in_pool = true},
      .definition = "_npu_reshape_and_cache for key and key_cache alone.",
  });
}

}  // namespace npugraph::npu_ops
