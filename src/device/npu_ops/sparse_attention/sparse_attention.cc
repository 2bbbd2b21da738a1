// SPDX-License-Identifier: Apache-2.0
// Attention to keys that are chosen for each query (DeepSeek-V3.2, 2025).
#include "device/npu_ops/families.h"
#include "device/npu_ops/quantisation/microscaling.h"
#include "device/npu_ops/sparse_attention/sparse_call.h"

namespace npugraph::npu_ops {
namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

void sparse_flash_attention(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Axes axes = query_axes(call);
  const Attention out = chosen_attention(call).attend();
  const Tensor result = from_heads(out.result, axes);
  const c10::SymInt heads = call.tensor({"key"}).sym_size(-2);
  const auto statistics = [&](const Tensor& of_rows) {
    if (!call.flag({"return_softmax_lse"})) return result.new_empty({0}, result.options().dtype(at::kFloat));
    return by_key_heads(of_rows, axes, heads).to(at::kFloat);
  };
  const Tensor largest = statistics(out.max);
  call.give(result, largest, statistics(out.sum));
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

// Checks that keys and values are stored in the one way that the definition names.
void check_quant_modes(const CallArguments& call) {
  check_choice(call.op(), "key_quant_mode", call.integer({"key_quant_mode"}), {2});
  check_choice(call.op(), "value_quant_mode", call.integer({"value_quant_mode"}), {2});
  check_choice(call.op(), "quant_scale_repo_mode", call.integer({"quant_scale_repo_mode"}), {1});
}

StoredRows rows_in_tiles(const CallArguments& call, const char* name, const char* type) {
  const Tensor rows = read_as(call.op(), name, call.tensor({name}), call.optional_integer({type}));
  check_type(call.op(), name, rows, {at::kChar, at::kFloat8_e4m3fn, at::kFloat8_e5m2});
  return key_like(call, name, rows);
}

void kv_quant_sparse_flash_attention(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  check_quant_modes(call);
  AttentionPieces pieces = chosen_attention(call);
  pieces.key = rows_in_tiles(call, "key", "key_dtype");
  pieces.value = rows_in_tiles(call, "value", "value_dtype");
  pieces.tiles = {.tile_size = call.integer({"tile_size"}), .rope_size = call.integer({"rope_head_dim"})};
  call.give(from_heads(pieces.attend().result, query_axes(call)));
}

void kv_quant_sparse_flash_attention_meta(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Tensor& query = call.tensor({"query"});
  std::vector<c10::SymInt> sizes = query.sym_sizes().vec();
  sizes.back() = sizes.back() - call.integer({"rope_head_dim"});
  call.give(query.new_empty_symint(sizes));
}

}  // namespace

void define_sparse_attention(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_sparse_flash_attention(Tensor query, Tensor key, Tensor? value, Tensor sparse_indices, float "
                "scale_value, *, Tensor? block_table=None, Tensor? actual_seq_lengths_query=None, Tensor? "
                "actual_seq_lengths_kv=None, Tensor? query_rope=None, Tensor? key_rope=None, int sparse_block_size=1, "
                "str layout_query=\"BSND\", str layout_kv=\"BSND\", int sparse_mode=3, int "
                "pre_tokens=9223372036854775807, int next_tokens=9223372036854775807, int attention_mode=0, bool "
                "return_softmax_lse=False, Tensor? sinks=None) -> (Tensor, Tensor, Tensor)",
      .kernel = parts_unless({"actual_seq_lengths_query", "actual_seq_lengths_kv", "block_table"},
                             boxed<&sparse_flash_attention>(), boxed<&sparse_flash_attention_meta>()),
      .traits = {.on_host = {"actual_seq_lengths_query", "actual_seq_lengths_kv"}},
      .definition = "Attention of each query to the blocks of keys that sparse_indices selects, the sparse attention "
                    "of DeepSeek-V3.2 (2025). sparse_indices is [B, S, key heads, n] or [T, key heads, n]: number b "
                    "selects the sparse_block_size keys from b * sparse_block_size on, and -1 selects none. query is "
                    "[B, S, N, D] or [T, N, D]; key and value have fewer heads if groups of query heads share them. "
                    "Layouts, lengths, block_table and sparse_mode (3 is causal, 0 hides nothing) are those of "
                    "npu_lightning_indexer. query_rope and key_rope are further elements of the heads of query and "
                    "key. If value is None, key is the value as well; query_rope and key_rope do not count to it. "
                    "sinks, [N], adds one score without a value to the softmax of each head. attention_mode, "
                    "pre_tokens and next_tokens are ignored. Results: the attention in the layout and type of query; "
                    "and with return_softmax_lse the maximum and the sum of the softmax in float32, [B, key heads, S, "
                    "N / key heads] or, in the layout TND, [key heads, T, N / key heads], otherwise empty tensors.",
  });
  library.add({
      .schema = "npu::npu_kv_quant_sparse_flash_attention(Tensor query, Tensor key, Tensor value, Tensor "
                "sparse_indices, float scale_value, int key_quant_mode, int value_quant_mode, *, Tensor? "
                "key_dequant_scale=None, Tensor? value_dequant_scale=None, Tensor? block_table=None, Tensor? "
                "actual_seq_lengths_query=None, Tensor? actual_seq_lengths_kv=None, int sparse_block_size=1, str "
                "layout_query=\"BSND\", str layout_kv=\"BSND\", int sparse_mode=3, int pre_tokens=9223372036854775807, "
                "int next_tokens=9223372036854775807, int attention_mode=0, int quant_scale_repo_mode=1, int "
                "tile_size=128, int rope_head_dim=64, int? key_dtype=None, int? value_dtype=None) -> Tensor",
      .kernel = whole(boxed<&kv_quant_sparse_flash_attention>(), boxed<&kv_quant_sparse_flash_attention_meta>()),
      .traits = {.on_host = {"actual_seq_lengths_query", "actual_seq_lengths_kv"}},
      .definition = "npu_sparse_flash_attention of quantised keys and values, with the attention as its only result. "
                    "key and value are in int8 or float8, and for queries of D elements each of their rows holds, as "
                    "bytes: D - rope_head_dim quantised elements, then rope_head_dim elements in the type of query, "
                    "then one scale in float32 for each tile_size of the quantised elements. Keys are all D elements "
                    "of the rows of key, and values are the first D - rope_head_dim elements of the rows of value, "
                    "multiplied by the scales of their tiles; the rope_head_dim elements have no scale. The heads of "
                    "the result have D - rope_head_dim elements. key_dtype and value_dtype say how the bytes are "
                    "read, where this is not their own type. key_quant_mode and value_quant_mode must be 2 and "
                    "quant_scale_repo_mode must be 1, which name this format. key_dequant_scale, value_dequant_scale "
                    "and attention_mode are ignored.",
  });
}

}  // namespace npugraph::npu_ops
