// SPDX-License-Identifier: Apache-2.0
// Attention to a cache in pages, and of packed rows, under the names of the atb namespace.
#include "device/npu_ops/attention/packed_attention.h"
#include "device/npu_ops/attention/workspace.h"
#include "device/npu_ops/families.h"

namespace npugraph::npu_ops {
namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

// Writes `result` to the argument out. The call returns out, or nothing if its schema has no results.
void give_out(CallArguments& call, const OperatorHandle& op, CallArguments::Names names, const Tensor& result) {
  const Tensor out = call.tensor(names);
  out.copy_(result.view_as(out));
  if (op.schema().returns().empty()) return call.give();
  call.give(out);
}

void cache_attention(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  give_out(call, op, {"out", "output"}, attend_packed(call.op(), cache_call(call), false).result);
}

// quant_type 3: query, keys and values are int8, with a factor of products and one of results for each head of the
// query. Other types: values of the caches have factors, one for each element of a row or of a head.
void quantised_cache_attention(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  constexpr int64_t kByHeads = 3;
  PackedCall packed = cache_call(call);
  const Tensor &of_keys = call.tensor({"k_descale"}), &of_values = call.tensor({"v_descale"});
  if (call.integer({"quant_type"}) != kByHeads) {
    packed.key.set_quantisation(call.op(), "key_cache", {.scale = of_keys});
    packed.value.set_quantisation(call.op(), "value_cache", {.scale = of_values});
    return give_out(call, op, {"out"}, attend_packed(call.op(), packed, false).result);
  }
  packed.query = wide(packed.query) * wide(of_keys).reshape({1, -1, 1, 1});
  give_out(call, op, {"out"}, attend_packed(call.op(), packed, false).result * wide(of_values).reshape({-1, 1}));
}

void cache_attention_result(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Tensor& query = call.tensor({"query"});
  call.give(attend_packed(call.op(), cache_call(call), false).result.view_as(query));
}

// Values are the first elements of keys.
void latent_cache_attention(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Tensor& cache = call.tensor({"key_cache"});
  const Tensor query = packed_rows(call, "query", call.tensor({"query"}), heads_of(call));
  const bool in_pieces = is_in_pieces(call, "key_cache", cache, query.sym_size(3));
  const StoredRows values = cache_of(call, "key_cache", cache, in_pieces, call.integer({"mla_vheadsize"}));
  const PackedCall packed =
      cache_call(call, query, std::nullopt, cache_of(call, "key_cache", cache, in_pieces), values);
  give_out(call, op, {"out"}, attend_packed(call.op(), packed, false).result);
}

// Attention of packed queries to packed keys and values, all of the same lengths.
void flash_attention(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  // 0 none, 1 norm, 2 alibi, 3 norm compressed, 4 alibi compressed: the tensors of the call tell these apart. Other
  // types change distances or windows and are not supported.
  check_choice(call.op(), "mask_type", call.integer({"mask_type"}), {0, 1, 2, 3, 4});
  const std::vector<int64_t> lengths = lengths_of(call, {"seq_len"});
  const Tensor query = packed_rows(call, "query", call.tensor({"query"}), heads_of(call));
  const PackedCall packed =
      rows_call(call, query, lengths, lengths, packed_keys(call, "key"), packed_keys(call, "value"));
  give_out(call, op, {"out"}, attend_packed(call.op(), packed, false).result);
}

bool has_quantised_query(const CallArguments& call) { return call.tensor({"q_nope"}).scalar_type() == at::kChar; }

// Factors of products of int8, one for each head.
Tensor factors(const CallArguments& call, const char* name) {
  const Tensor given = call.optional_tensor({name});
  TORCH_CHECK(given.defined(), call.op(), ": ", name, " is needed where q_nope is of type Char");
  return wide(given).reshape({-1, 1});
}

Tensor with_rope(const CallArguments& call) {
  const int64_t heads = heads_of(call);
  Tensor nope = packed_rows(call, "q_nope", call.tensor({"q_nope"}), heads);
  if (has_quantised_query(call)) nope = wide(nope) * factors(call, "qk_descale").unsqueeze(-1);
  const Tensor rope = packed_rows(call, "q_rope", call.tensor({"q_rope"}), heads);
  return at::cat({nope, rope.to(nope.scalar_type())}, -1);
}

PackedResult latent_attention(const CallArguments& call, bool wants_lse) {
  const std::string mode = call.text({"cache_mode"});
  const bool in_pieces = mode == "nzcache" || mode == "int8_nzcache";
  TORCH_CHECK(mode.empty() || mode == "krope_ctkv" || in_pieces, call.op(), ": cache_mode is \"", mode,
              "\", allowed are \"krope_ctkv\", \"nzcache\" and \"int8_nzcache\"");
  const StoredRows latent = cache_of(call, "ctkv", call.tensor({"ctkv"}), in_pieces);
  PackedCall packed = cache_call(call, with_rope(call), call.integers({"qseqlen"}), latent, latent);
  packed.key_rope = cache_of(call, "k_rope", call.tensor({"k_rope"}), in_pieces);
  PackedResult out = attend_packed(call.op(), packed, wants_lse);
  if (!has_quantised_query(call)) return out;
  out.result = (out.result * factors(call, "pv_descale")).to(call.tensor({"q_rope"}).scalar_type());
  return out;
}

void multi_head_latent_attention(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  call.give(latent_attention(call, false).result);
}

void multi_head_latent_attention_out(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  give_out(call, op, {"output"}, latent_attention(call, false).result);
}

// An uninitialised lse, without rows unless return_lse is set. It has the type of the result, which is that of q_rope.
Tensor empty_lse(const CallArguments& call) {
  const Tensor& query = call.tensor({"q_rope"});
  const c10::SymInt rows = call.flag({"return_lse"}) ? query.sym_size(0) : c10::SymInt(0);
  return query.new_empty_symint({rows, heads_of(call), 1});
}

void multi_head_latent_attention_lse(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const PackedResult out = latent_attention(call, call.flag({"return_lse"}));
  call.give(out.result, out.lse.defined() ? out.lse.to(out.result.scalar_type()) : empty_lse(call));
}

void multi_head_latent_attention_lse_out(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const PackedResult out = latent_attention(call, call.flag({"return_lse"}));
  const Tensor output = call.tensor({"output"}), lse = call.tensor({"lse"});
  output.copy_(out.result.view_as(output));
  if (out.lse.defined()) lse.copy_(out.lse.view_as(lse));
  call.give(output, lse);
}

Tensor empty_latent_result(const CallArguments& call) {
  const Tensor& query = call.tensor({"q_nope"});
  const int64_t heads = heads_of(call);
  const c10::SymInt size = query.dim() == 3 ? query.sym_size(2) : query.sym_size(1) / heads;
  return call.tensor({"q_rope"}).new_empty_symint({query.sym_size(0), heads, size});
}

void latent_meta(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  call.give(empty_latent_result(call));
}

void latent_lse_meta(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  call.give(empty_latent_result(call), empty_lse(call));
}

// Result [T, heads, size] and lse [heads, T] of packed rows, merged with earlier results for other
// keys if there are any.
PackedResult ring(const CallArguments& call) {
  const std::vector<int64_t> lengths = lengths_of(call, {"seqlen"});
  const bool both = call.tensor({"seqlen"}).dim() == 2;
  const size_t count = both ? lengths.size() / 2 : lengths.size();
  PackedCall packed =
      rows_call(call, with_rope(call), {lengths.begin(), lengths.begin() + count},
                {lengths.end() - count, lengths.end()}, packed_keys(call, "k_nope"), packed_keys(call, "value"));
  packed.key_rope = packed_keys(call, "k_rope");
  PackedResult out = attend_packed(call.op(), packed, true);
  const Tensor earlier = call.optional_tensor({"pre_out"}), earlier_lse = call.optional_tensor({"prev_lse"});
  if (earlier.defined() && earlier_lse.defined() && call.text({"calc_type"}) != "calc_type_first_ring") {
    const Merged merged = merge({earlier.view_as(out.result), out.result}, {earlier_lse.t().unsqueeze(-1), out.lse});
    out = {merged.result.to(out.result.scalar_type()), merged.lse};
  }
  return {out.result, out.lse.squeeze(-1).t().contiguous().to(at::kFloat)};
}

void ring_mla(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const PackedResult out = ring(call);
  call.give(out.result, out.lse);
}

void ring_mla_out(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const PackedResult out = ring(call);
  const Tensor output = call.tensor({"output"}), lse = call.tensor({"softmax_lse"});
  output.copy_(out.result.view_as(output));
  lse.copy_(out.lse.view_as(lse));
  call.give(output, lse);
}

void ring_meta(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Tensor& query = call.tensor({"q_nope"});
  const c10::SymInt rows = query.sym_size(0), heads = heads_of(call);
  call.give(query.new_empty_symint({rows, heads, call.tensor({"value"}).sym_size(-1)}),
            at::empty_symint({heads, rows}, query.options().dtype(at::kFloat)));
}

// Rows of the caches of keys and of values.
std::pair<Tensor, Tensor> loaded(const CallArguments& call) {
  std::vector<int64_t> lengths = lengths_of(call, {"context_lens"});
  if (call.flag({"cumsum"})) {
    if (!lengths.empty() && lengths.front() == 0) lengths.erase(lengths.begin());
    lengths = from_ends(call.op(), "context_lens", lengths);
  }
  const auto starts = call.integers({"seq_starts"}).value_or(std::vector<int64_t>(lengths.size(), 0));
  const Tensor& table = call.tensor({"block_table"});
  TORCH_CHECK(starts.size() == lengths.size(), call.op(), ": seq_starts has ", starts.size(),
              " elements, and context_lens says ", lengths.size(), " lengths");
  const auto load = [&](const char* name) {
    const Tensor& cache = call.tensor({name});
    check_dims(call.op(), name, cache, 4, 4);
    std::vector<Tensor> parts;
    for (size_t index = 0; index < lengths.size(); ++index) {
      const int64_t start = starts[index] / cache.size(1) * cache.size(1), end = start + lengths[index];
      parts.push_back(from_pages(cache, PageForm::kBnBsND, cache.sym_size(2), table.select(0, index), end)
                          .narrow(2, start, lengths[index]));
    }
    return from_heads(at::cat(parts, 2), Axes::kTND);
  };
  return {load("key_cache"), load("value_cache")};
}

void load_cache(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const auto [key, value] = loaded(call);
  call.give(key, value);
}

void load_cache_out(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const auto [keys, values] = loaded(call);
  const auto put = [&](const char* name, const Tensor& rows) {
    const Tensor& out = call.tensor({name});
    TORCH_CHECK(
        out.dim() > 0 && out.size(0) >= rows.size(0) && out.numel() == out.size(0) * rows.size(1) * rows.size(2),
        call.op(), ": ", name, " has shape ", out.sizes(), ", and the rows are of shape ", rows.sizes());
    const Tensor first = out.narrow(0, 0, rows.size(0));
    first.copy_(rows.view_as(first));
    return out;
  };
  call.give(put("key", keys), put("value", values));
}

void load_cache_meta(const OperatorHandle& op, Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.operator_name().name,
                              ": sizes of the results are values of context_lens, which a "
                              "graph does not know");
}

void gives_query(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Tensor& query = call.tensor({"query"});
  call.give(query.new_empty_symint(query.sym_sizes()));
}

// The results are the arguments that are written.
void gives_out(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  std::vector<Tensor> out;
  for (const c10::Argument& argument : op.schema().arguments())
    if (argument.alias_info() != nullptr && argument.alias_info()->isWrite())
      out.push_back(call.tensor({argument.name().c_str()}));
  call.give();
  for (size_t index = 0; index < op.schema().returns().size(); ++index) stack->emplace_back(out[index]);
}

constexpr const char* kPaged =
    "Attention of one query per sequence to a paged KV cache, written into out (PagedAttention, Kwon et al., 2023): "
    "softmax(scale_value * query @ key^T) @ value. query is [B, num_heads, D] or [B, num_heads * D]. key_cache and "
    "value_cache are [blocks, block size, num_kv_heads, D], [blocks, block size, num_kv_heads * D] or, in layout NZ, "
    "[blocks, num_kv_heads * D / n, block size, n]. Fewer key heads are shared by groups of query heads; num_kv_heads "
    "0 stands for num_heads. block_table [B, blocks of a sequence] names the blocks of each sequence, and context_lens "
    "[B] the number of its keys. out has as many elements as query; it may have another type and is not resized. "
    "workspace is ignored.";
constexpr const char* kPrefix =
    "Attention of packed queries to a paged KV cache, as in chunked prefill, written into out: _npu_paged_attention "
    "with seq_len [B] queries per sequence, which are at the last of its context_lens positions. query is [T, "
    "num_heads, D]. mask is [R, K], [B, R, K] or [B, N, R, K], with R rows for the T queries or for the positions of "
    "a sequence and K positions of keys: an element above 0 masks a key, others are added to the scores. A mask "
    "smaller than a sequence stands for the causal mask.";

}  // namespace

void define_paged_attention(OperatorLibrary& library) {
  library.add({
      .schema = "atb::_npu_paged_attention(Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, int "
                "num_heads, float scale_value, Tensor block_table, Tensor context_lens, Tensor(a!) out, *, Tensor? "
                "workspace=None) -> ()",
      .kernel = whole(boxed<&cache_attention>(), boxed<&gives_out>()),
      .traits = {.on_host = {"context_lens"}, .in_pool = true},
      .definition = kPaged,
  });
  library.add({
      .schema = "atb::_npu_paged_attention_v2.out(Tensor query, Tensor key_cache, Tensor block_table, SymInt[] "
                "context_lens, *, Tensor? value_cache=None, Tensor? mask=None, int num_kv_heads=0, int num_heads=0, "
                "float scale_value=1.0, int mask_type=0, Tensor? workspace=None, Tensor(a!) out) -> Tensor(a!)",
      .kernel = whole(boxed<&cache_attention>(), boxed<&gives_out>()),
      .traits = {.in_pool = true},
      .definition = "_npu_paged_attention with context_lens as integers and an optional mask, which is read as in "
                    "_npu_paged_attention_splitfuse. Without value_cache, key_cache holds the values, too. mask_type "
                    "and workspace are ignored.",
  });
  library.add({
      .schema = "atb::_npu_paged_attention_quant(Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, "
                "int num_heads, float scale_value, Tensor block_table, Tensor context_lens, int quant_type, int "
                "outdata_type, Tensor k_descale, Tensor v_descale, Tensor(a!) out) -> ()",
      .kernel = whole(boxed<&quantised_cache_attention>(), boxed<&gives_out>()),
      .traits = {.on_host = {"context_lens"}},
      .definition = "_npu_paged_attention with a cache in int8. Keys and values are multiplied by k_descale and "
                    "v_descale, which have one element or num_kv_heads * D. With quant_type 3 query is in int8, too: "
                    "scores are multiplied by k_descale and results by v_descale, one number for each head of the "
                    "query, and softmax weights are not rounded. outdata_type is ignored; the type of out counts.",
  });
  library.add({
      .schema = "atb::_npu_paged_attention_splitfuse(Tensor query, Tensor key_cache, Tensor value_cache, Tensor "
                "block_table, Tensor context_lens, Tensor mask, Tensor seq_len, int num_kv_heads, int num_heads, float "
                "scale_value, Tensor(a!) out) -> ()",
      .kernel = whole(boxed<&cache_attention>(), boxed<&gives_out>()),
      .traits = {.on_host = {"context_lens", "seq_len"}},
      .definition = kPrefix,
  });
  library.add({
      .schema = "atb::_npu_flash_attention_qlens(Tensor query, Tensor key_cache, Tensor value_cache, Tensor "
                "block_table, Tensor mask, Tensor seq_len, Tensor context_lens, int num_kv_heads, int num_heads, float "
                "scale_value, Tensor(a!) out) -> ()",
      .kernel = whole(boxed<&cache_attention>(), boxed<&gives_out>()),
      .traits = {.on_host = {"seq_len", "context_lens"}},
      .definition = "_npu_paged_attention_splitfuse with its arguments in another order.",
  });
  library.add({
      .schema = "atb::_npu_flash_attention_prefix_v2.out(Tensor query, Tensor key_cache, Tensor value_cache, Tensor "
                "block_table, Tensor mask, SymInt[] seq_len, SymInt[] context_lens, *, Tensor? slopes=None, int "
                "kernel_type=1, int mask_type=3, int num_kv_heads=0, int num_heads=0, float scale_value=1, Tensor(a!) "
                "out) -> Tensor(a!)",
      .kernel = whole(boxed<&cache_attention>(), boxed<&gives_out>()),
      .definition = "_npu_paged_attention_splitfuse with lengths as integers and optional slopes. With slopes "
                    "[num_heads], slope * distance is subtracted from the scores under a causal mask, and mask is "
                    "ignored (ALiBi, Press et al., 2022). kernel_type and mask_type are ignored.",
  });
  library.add({
      .schema = "atb::_npu_paged_attention_mla(Tensor query, Tensor key_cache, int num_kv_heads, int num_heads, float "
                "scale_value, Tensor block_table, Tensor context_lens, int mla_vheadsize, Tensor(a!) out) -> ()",
      .kernel = whole(boxed<&latent_cache_attention>(), boxed<&gives_out>()),
      .traits = {.on_host = {"context_lens"}},
      .definition = "_npu_paged_attention for multi-head latent attention, where the first mla_vheadsize elements of "
                    "a key are its value. key_cache is [blocks, block size, num_kv_heads, D] or in layout NZ, and out "
                    "is [B, num_heads, mla_vheadsize].",
  });
  library.add({
      .schema = "atb::_npu_flash_attention(Tensor query, Tensor key, Tensor value, Tensor mask, Tensor seq_len, float "
                "scale_value, int num_heads, int num_kv_heads, Tensor(a!) out) -> ()",
      .kernel = whole(boxed<&flash_attention>(), boxed<&gives_out>()),
      .traits = {.on_host = {"seq_len"}},
      .definition = "Attention of packed sequences, each to itself, without a cache: softmax(scale_value * query @ "
                    "key^T + mask) @ value, written into out. query is [T, num_heads, D] or [T, num_heads * D], key "
                    "and value are [T, num_kv_heads, D] or [T, num_kv_heads * D], and seq_len [B] has the lengths of "
                    "the sequences. mask is [S, S], [B, S, S] or [B, N, S, S], by positions in a sequence: an element "
                    "above 0 masks a key, others are added to the scores. A mask smaller than a sequence stands for "
                    "the causal mask.",
  });
  library.add({
      .schema = "atb::_npu_flash_attention_unpad(Tensor query, Tensor key, Tensor value, Tensor seq_len, float "
                "scale_value, int num_heads, int num_kv_heads, Tensor(a!) out) -> ()",
      .kernel = whole(boxed<&flash_attention>(), boxed<&gives_out>()),
      .traits = {.on_host = {"seq_len"}},
      .definition = "_npu_flash_attention without a mask: each query sees all keys of its sequence.",
  });
  library.add({
      .schema = "atb::_npu_flash_attention_v2.out(Tensor query, Tensor key, Tensor value, SymInt[] seq_len, *, Tensor? "
                "mask=None, Tensor? slopes=None, int kernel_type=0, int mask_type=0, int num_kv_heads=0, int "
                "num_heads=0, float scale_value=1, Tensor(a!) out) -> Tensor(a!)",
      .kernel = whole(boxed<&flash_attention>(), boxed<&gives_out>()),
      .definition = "_npu_flash_attention with seq_len as integers, an optional mask and optional slopes. With slopes "
                    "[num_heads], slope * distance is subtracted from the scores under a causal mask, and mask is "
                    "ignored (ALiBi, Press et al., 2022). mask_type has to be 0 to 4 and has no other effect; "
                    "kernel_type is ignored.",
  });
  library.add({
      .schema = "atb::_npu_paged_attention_get_workspace(Tensor query, Tensor key_cache, Tensor value_cache, int "
                "num_kv_heads, int num_heads, float scale_value, Tensor block_table, Tensor context_lens, Tensor(a!) "
                "out) -> Tensor",
      .kernel = whole(boxed<&give_workspace>(), boxed<&give_workspace>()),
      .traits = {.on_host = {"context_lens"}},
      .definition = kWorkspaceDefinition,
  });
  library.add({
      .schema = "atb::_npu_paged_attention_v2_get_workspace(Tensor query, Tensor key_cache, Tensor block_table, "
                "SymInt[] context_lens, *, Tensor? value_cache=None, Tensor? mask=None, int num_kv_heads=0, int "
                "num_heads=0, float scale_value=1.0, int mask_type=0, Tensor(a!) out) -> Tensor",
      .kernel = whole(boxed<&give_workspace>(), boxed<&give_workspace>()),
      .definition = kWorkspaceDefinition,
  });
  library.add({
      .schema = "atb::_npu_multi_head_latent_attention_get_workspace.lse(Tensor q_nope, Tensor q_rope, Tensor ctkv, "
                "Tensor k_rope, Tensor block_tables, SymInt[] context_lens, int q_headnum, float qk_scale, int "
                "kv_headnum, bool return_lse, *, Tensor? mask=None, SymInt[]? qseqlen=None, Tensor? qk_descale=None, "
                "Tensor? pv_descale=None, str? mask_type=None, str? calc_type=None, str? cache_mode=None) -> Tensor",
      .kernel = whole(boxed<&give_workspace>(), boxed<&give_workspace>()),
      .definition = kWorkspaceDefinition,
  });
  library.add({
      .schema = "atb::npu_multi_head_latent_attention(Tensor q_nope, Tensor q_rope, Tensor ctkv, Tensor k_rope, Tensor "
                "block_tables, SymInt[] context_lens, int q_headnum, float qk_scale, int kv_headnum, *, Tensor? "
                "mask=None, SymInt[]? qseqlen=None, Tensor? qk_descale=None, Tensor? pv_descale=None, str? "
                "mask_type=None, str? calc_type=None, str? cache_mode=None) -> Tensor",
      .kernel = whole(boxed<&multi_head_latent_attention>(), boxed<&latent_meta>()),
      .definition = "Multi-head latent attention to a paged cache (DeepSeek-V2, 2024): softmax(qk_scale * (q_nope @ "
                    "ctkv^T + q_rope @ k_rope^T)) @ ctkv. q_nope is [T, q_headnum, L], q_rope [T, q_headnum, R], ctkv "
                    "[blocks, block size, kv_headnum, L] and k_rope [blocks, block size, kv_headnum, R]. block_tables "
                    "names the blocks of each sequence, context_lens the number of its keys, and qseqlen that of its "
                    "queries, by default 1. With cache_mode nzcache or int8_nzcache the caches are in layout NZ, "
                    "[blocks, kv_headnum * L / n, block size, n]. If q_nope and ctkv are in int8, their products are "
                    "multiplied by qk_descale and the result by pv_descale, one number per head, and softmax weights "
                    "are not rounded. mask and mask_type are read as in npu_self_attention_prefix_encoder. The result "
                    "is [T, q_headnum, L] in the type of q_rope. calc_type is ignored.",
  });
  library.add({
      .schema =
          "atb::npu_multi_head_latent_attention.lse(Tensor q_nope, Tensor q_rope, Tensor ctkv, Tensor k_rope, Tensor "
          "block_tables, SymInt[] context_lens, int q_headnum, float qk_scale, int kv_headnum, bool return_lse, *, "
          "Tensor? mask=None, SymInt[]? qseqlen=None, Tensor? qk_descale=None, Tensor? pv_descale=None, str? "
          "mask_type=None, str? calc_type=None, str? cache_mode=None, Tensor? workspace=None) -> (Tensor, Tensor)",
      .kernel = whole(boxed<&multi_head_latent_attention_lse>(), boxed<&latent_lse_meta>()),
      .definition = "npu_multi_head_latent_attention that also returns log(sum(exp(scores))), [T, q_headnum, 1] in "
                    "the type of the first result, or [0, q_headnum, 1] without return_lse. workspace is ignored.",
  });
  library.add({
      .schema = "atb::npu_multi_head_latent_attention.out(Tensor q_nope, Tensor q_rope, Tensor ctkv, Tensor k_rope, "
                "Tensor block_tables, SymInt[] context_lens, int q_headnum, float qk_scale, int kv_headnum, *, Tensor? "
                "mask=None, SymInt[]? qseqlen=None, Tensor? qk_descale=None, Tensor? pv_descale=None, str? "
                "mask_type=None, str? calc_type=None, str? cache_mode=None, Tensor(a!) output) -> Tensor(a!)",
      .kernel = whole(boxed<&multi_head_latent_attention_out>(), boxed<&gives_out>()),
      .definition = "npu_multi_head_latent_attention that writes its result into output. output must have as many "
                    "elements as the result; it may have another type, and is not resized.",
  });
  library.add({
      .schema = "atb::npu_multi_head_latent_attention.lse_out(Tensor q_nope, Tensor q_rope, Tensor ctkv, Tensor "
                "k_rope, Tensor block_tables, SymInt[] context_lens, int q_headnum, float qk_scale, int kv_headnum, "
                "bool return_lse, *, Tensor? mask=None, SymInt[]? qseqlen=None, Tensor? qk_descale=None, Tensor? "
                "pv_descale=None, str? mask_type=None, str? calc_type=None, str? cache_mode=None, Tensor? "
                "workspace=None, Tensor(a!) output, Tensor(b!) lse) -> (Tensor(a!), Tensor(b!))",
      .kernel = whole(boxed<&multi_head_latent_attention_lse_out>(), boxed<&gives_out>()),
      .definition = "npu_multi_head_latent_attention.lse that writes its results into output and lse, the latter only "
                    "with return_lse. They must have as many elements as the results, and may have other types.",
  });
  library.add({
      .schema = "atb::npu_ring_mla(Tensor q_nope, Tensor q_rope, Tensor k_nope, Tensor k_rope, Tensor value, Tensor "
                "mask, Tensor seqlen, int head_num, int kv_head_num, *, Tensor? pre_out=None, Tensor? prev_lse=None, "
                "float qk_scale=1, str? kernel_type=None, str? mask_type=None, str? input_layout=None, str? "
                "calc_type=None) -> (Tensor, Tensor)",
      .kernel = whole(boxed<&ring_mla>(), boxed<&ring_meta>()),
      .traits = {.on_host = {"seqlen"}},
      .definition = "Attention of packed sequences, merged with an earlier result for other keys as in Ring Attention "
                    "(Liu et al., 2023): softmax(qk_scale * (q_nope @ k_nope^T + q_rope @ k_rope^T)) @ value. q_nope "
                    "and q_rope are [T, head_num, D] with sizes of their own, and k_nope, k_rope and value are [T_kv, "
                    "kv_head_num, D]. seqlen is [B], the lengths of queries and keys alike, or [2, B], first the "
                    "lengths of queries and then the lengths of keys. pre_out and prev_lse, of the shapes of the "
                    "results, are the earlier results. They are merged if both are given and calc_type is not "
                    "calc_type_first_ring: lse = logaddexp(prev_lse, own lse), out = exp(prev_lse - lse) * pre_out + "
                    "exp(own lse - lse) * own attention. mask_type_triu applies a causal mask aligned at the last "
                    "key, and no_mask applies none; otherwise mask is read as in _npu_flash_attention, with the last "
                    "query at the position of the last key. Results: the attention [T, head_num, value size] in the "
                    "type of q_nope, and lse = log(sum(exp(scores))) over all keys, with the earlier ones if they are "
                    "merged, [head_num, T] in float32. kernel_type and input_layout are ignored.",
  });
  library.add({
      .schema = "atb::npu_ring_mla.out(Tensor q_nope, Tensor q_rope, Tensor k_nope, Tensor k_rope, Tensor value, "
                "Tensor mask, Tensor seqlen, int head_num, int kv_head_num, *, Tensor? pre_out=None, Tensor? "
                "prev_lse=None, float qk_scale=1, str? kernel_type=None, str? mask_type=None, str? input_layout=None, "
                "str? calc_type=None, Tensor(a!) output, Tensor(b!) softmax_lse) -> (Tensor(a!), Tensor(b!))",
      .kernel = whole(boxed<&ring_mla_out>(), boxed<&gives_out>()),
      .traits = {.on_host = {"seqlen"}},
      .definition = "npu_ring_mla that writes its results into output and softmax_lse. They must have as many elements "
                    "as the results, and may have other types.",
  });
  library.add({
      .schema = "atb::npu_self_attention_prefix_encoder(Tensor query, Tensor key, Tensor value, Tensor block_tables, "
                "SymInt[] seqlen, SymInt[] kv_seqlen, int q_headnum, float qk_scale, int kv_headnum, *, Tensor? "
                "mask=None, Tensor? slopes=None, str? mask_type=None) -> Tensor",
      .kernel = whole(boxed<&cache_attention_result>(), boxed<&gives_query>()),
      .definition = "Attention of packed queries to a paged KV cache, as in chunked prefill: "
                    "_npu_paged_attention_splitfuse that returns its result, in the shape and type of query. query is "
                    "[T, q_headnum, D]. key and value are the caches, [blocks, block size, kv_headnum, D] or as for "
                    "_npu_paged_attention, and block_tables [B, blocks of a sequence] names the blocks of each "
                    "sequence. seqlen [B] has the number of its queries, which are at the last of its kv_seqlen [B] "
                    "positions. The scores are qk_scale * query @ key^T. mask is optional: without it queries see all "
                    "keys. A mask_type that contains causal or triu applies a causal mask in place of mask, and "
                    "no_mask ignores mask. With slopes [q_headnum], slope * distance is subtracted from the scores "
                    "under a causal mask, and mask is ignored (ALiBi, Press et al., 2022).",
  });
  library.add({
      .schema = "atb::npu_self_attention_prefix_encoder.out(Tensor query, Tensor key, Tensor value, Tensor "
                "block_tables, SymInt[] seqlen, SymInt[] kv_seqlen, int q_headnum, float qk_scale, int kv_headnum, *, "
                "Tensor? mask=None, Tensor? slopes=None, str? mask_type=None, Tensor(a!) output) -> Tensor(a!)",
      .kernel = whole(boxed<&cache_attention>(), boxed<&gives_out>()),
      .definition = "npu_self_attention_prefix_encoder that writes its result into output, which must have as many "
                    "elements as query. output may have another type, and is not resized.",
  });
  library.add({
      .schema = "atb::npu_paged_cache_load(Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor "
                "context_lens, *, Tensor? seq_starts=None, bool cumsum=False) -> (Tensor, Tensor)",
      .kernel = whole(boxed<&load_cache>(), boxed<&load_cache_meta>()),
      .traits = {.on_host = {"context_lens"}},
      .definition = "Gathers the keys and values of each sequence from a paged KV cache into packed rows. key_cache "
                    "and value_cache are [blocks, block size, heads, size], block_table [B, blocks of a sequence], "
                    "and context_lens [B] the number of rows of each sequence. seq_starts [B] are the positions from "
                    "which to read, rounded down to the start of a block (default 0). With cumsum, context_lens are "
                    "cumulative ends, with or without a 0 before them. Results: keys and values [T, heads, size] in "
                    "the types of the caches.",
  });
  library.add({
      .schema = "atb::npu_paged_cache_load.out(Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor "
                "context_lens, *, Tensor? seq_starts=None, bool cumsum=False, Tensor(a!) key, Tensor(b!) value) -> "
                "(Tensor(a!), Tensor(b!))",
      .kernel = whole(boxed<&load_cache_out>(), boxed<&gives_out>()),
      .traits = {.on_host = {"context_lens"}},
      .definition = "npu_paged_cache_load that writes its results into the first rows of key and value. Further rows "
                    "stay as they are.",
  });
}

}  // namespace npugraph::npu_ops
