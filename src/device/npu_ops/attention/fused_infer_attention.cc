// SPDX-License-Identifier: Apache-2.0
// Attention for inference: npu_fused_infer_attention_score and the older operators for its two halves.
#include <string>
#include <string_view>

#include "device/npu_ops/attention/fused_infer_call.h"
#include "device/npu_ops/attention/workspace.h"
#include "device/npu_ops/families.h"

namespace npugraph::npu_ops {
namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

void infer(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const auto [result, lse] = InferAttention(call).compute();
  call.give(result, lse);
}

void infer_meta(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const auto [result, lse] = empty_infer_results(call);
  call.give(result, lse);
}

void infer_result(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  call.give(InferAttention(call).compute().first);
}

void infer_result_meta(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  call.give(empty_infer_results(call).first);
}

std::vector<Tensor> two_outputs(const CallArguments& call) {
  const std::vector<Tensor> out = call.tensors({"out"});
  TORCH_CHECK(out.size() == 2, call.op(), ": out has ", out.size(),
              " tensors, and not two: attention_out and softmax_lse");
  return out;
}

void infer_out(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const std::vector<Tensor> out = two_outputs(call);
  const auto [result, lse] = InferAttention(call).compute();
  out[0].copy_(result.view_as(out[0]));
  if (lse.numel() != 0) out[1].copy_(lse.view_as(out[1]));
  call.give(out[0], out[1]);
}

void infer_out_meta(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const std::vector<Tensor> out = two_outputs(call);
  call.give(out[0], out[1]);
}

constexpr const char* kDefinition =
    "Attention for prefill and decoding, with grouped-query heads, a paged KV cache and quantised keys and values: "
    "softmax(scale * query @ key^T + pse_shift) @ value over the keys that sparse_mode and atten_mask leave visible. "
    "input_layout is BSH, SBH, BSND, BNSD, NBSD, TND or NTD (B batches, S rows, N = num_heads, D head size, H = N * D, "
    "T rows of all sequences); in a pair such as BNSD_BSND the second is the layout of the result. key and value have "
    "M = num_key_value_heads heads; 0 stands for num_heads. With block_table [B, blocks of a sequence] they are caches "
    "[blocks, block size, M * D], [blocks, M, block size, D] or [blocks, M, D / n, block size, n]. actual_seq_lengths "
    "and actual_seq_lengths_kv are lengths of sequences, in TND and NTD cumulative ends, except for keys in a cache. "
    "With query_padding_size and kv_padding_size sequences end that many rows before the end of their batch. pse_shift "
    "and atten_mask are [B, N, S, S_kv], where B, N and S may be 1, [B, S, S_kv], [S, S_kv] or, for a single query, "
    "[B, S_kv]; each sequence uses their first rows and columns. sparse_mode 0 applies atten_mask (nonzero masks a "
    "key) and, only if atten_mask is given, the band of pre_tokens and next_tokens, aligned at the first query and "
    "key: query i sees keys i - pre_tokens to i + next_tokens, and 2147483647 is no limit. 1 applies atten_mask alone; "
    "the other modes ignore it. 2 is a causal mask aligned at the first query and key; 3 a causal mask aligned at the "
    "last ones; 4 the band, aligned at the last ones. A single query that is not packed and has no query_rope ignores "
    "modes 2 to 4. query_rope and key_rope are concatenated to the heads of query and key. key_shared_prefix and "
    "value_shared_prefix come before the keys and values of each sequence. Keys and values in int8, float8 or int4 "
    "(eight to an int32) stand for (stored + offset) * scale by the antiquant arguments. Their modes are 0 per tensor "
    "or channel, 1 per token, 2 per head, 3 per token and head, 4 and 5 as 1 and 3 with scales in a cache, 6 per group "
    "of channels, 7 per block of tokens. If query is in int8 or float8, scores are multiplied by dequant_scale1 and "
    "the result by quant_scale1 * dequant_scale2; softmax weights are not rounded. Results: the attention, with heads "
    "of the size of those of value, in the type of query (in int8 with quant_scale2 and quant_offset2; otherwise, for "
    "a quantised query, in the type of query_rope or float16); log(sum(exp(scores))) in float32, [B, N, S, 1] or [T, "
    "N, 1], or of size [0] without softmax_lse_flag. A query with all keys masked gives 0 and -inf. inner_precise and "
    "block_size are ignored.";

constexpr const char* kInfer =
    "npu::npu_fused_infer_attention_score(Tensor query, Tensor key, Tensor value, *, Tensor? pse_shift=None, "
    "Tensor? atten_mask=None, SymInt[]? actual_seq_lengths=None, SymInt[]? actual_seq_lengths_kv=None, Tensor? "
    "dequant_scale1=None, Tensor? quant_scale1=None, Tensor? dequant_scale2=None, Tensor? quant_scale2=None, "
    "Tensor? quant_offset2=None, Tensor? antiquant_scale=None, Tensor? antiquant_offset=None, Tensor? "
    "key_antiquant_scale=None, Tensor? key_antiquant_offset=None, Tensor? value_antiquant_scale=None, Tensor? "
    "value_antiquant_offset=None, Tensor? block_table=None, Tensor? query_padding_size=None, Tensor? "
    "kv_padding_size=None, Tensor? key_shared_prefix=None, Tensor? value_shared_prefix=None, SymInt[]? "
    "actual_shared_prefix_len=None, Tensor? query_rope=None, Tensor? key_rope=None, Tensor? "
    "key_rope_antiquant_scale=None, int num_heads=1, float scale=1.0, int pre_tokens=2147483647, int "
    "next_tokens=2147483647, str input_layout=\"BSH\", int num_key_value_heads=0, int sparse_mode=0, int "
    "inner_precise=0, int block_size=0, int antiquant_mode=0, int key_antiquant_mode=0, int "
    "value_antiquant_mode=0, bool softmax_lse_flag=False) -> (Tensor, Tensor)";
constexpr const char* kInferV2 =
    "npu::npu_fused_infer_attention_score_v2(Tensor query, Tensor key, Tensor value, *, Tensor? query_rope=None, "
    "Tensor? key_rope=None, Tensor? pse_shift=None, Tensor? atten_mask=None, SymInt[]? actual_seq_qlen=None, "
    "SymInt[]? actual_seq_kvlen=None, Tensor? block_table=None, Tensor? dequant_scale_query=None, Tensor? "
    "dequant_scale_key=None, Tensor? dequant_offset_key=None, Tensor? dequant_scale_value=None, Tensor? "
    "dequant_offset_value=None, Tensor? dequant_scale_key_rope=None, Tensor? quant_scale_out=None, Tensor? "
    "quant_offset_out=None, Tensor? quant_scale_p=None, Tensor? learnable_sink=None, int num_query_heads=1, int "
    "num_key_value_heads=0, float softmax_scale=1.0, int pre_tokens=2147483647, int next_tokens=2147483647, str "
    "input_layout=\"BSH\", int sparse_mode=0, int block_size=0, int query_quant_mode=0, int key_quant_mode=0, "
    "int value_quant_mode=0, int inner_precise=0, bool return_softmax_lse=False, int? query_dtype=None, int? "
    "key_dtype=None, int? value_dtype=None, int? query_rope_dtype=None, int? key_rope_dtype=None, int? "
    "key_shared_prefix_dtype=None, int? value_shared_prefix_dtype=None, int? dequant_scale_query_dtype=None, "
    "int? dequant_scale_key_dtype=None, int? dequant_scale_value_dtype=None, int? "
    "dequant_scale_key_rope_dtype=None, int? out_dtype=None) -> (Tensor, Tensor)";

// The schema of the same operator of torchair, whose lengths are tensors.
std::string with_tensors_of_lengths(std::string schema) {
  constexpr std::string_view kNamespace = "npu", kLengths = "SymInt[]?";
  schema.replace(0, kNamespace.size(), "air");
  for (size_t at = 0; (at = schema.find(kLengths, at)) != schema.npos;) schema.replace(at, kLengths.size(), "Tensor?");
  return schema;
}

Kernel infer_kernel() {
  return parts_unless({"actual_seq_lengths", "actual_seq_lengths_kv", "block_table", "query_padding_size",
                       "kv_padding_size", "actual_shared_prefix_len"},
                      boxed<&infer>(), boxed<&infer_meta>());
}

Kernel infer_v2_kernel() {
  return parts_unless({"actual_seq_qlen", "actual_seq_kvlen", "block_table"}, boxed<&infer>(), boxed<&infer_meta>());
}

}  // namespace

void define_fused_infer_attention(OperatorLibrary& library) {
  library.add({
      .schema = kInfer,
      .kernel = infer_kernel(),
      .traits = {.on_host = {"query_padding_size", "kv_padding_size"}, .in_pool = true},
      .definition = kDefinition,
  });
  library.add({
      .schema = kInferV2,
      .kernel = infer_v2_kernel(),
      .traits = {.in_pool = true},
      .definition = "npu_fused_infer_attention_score with other argument names (num_query_heads, softmax_scale, "
                    "actual_seq_qlen, actual_seq_kvlen, dequant_scale_key, return_softmax_lse, ...) and a learnable "
                    "attention sink. learnable_sink [num_query_heads] is one more score per head that enters the sum "
                    "of the softmax but has no value. dequant_scale_query dequantises query: one number, one per row "
                    "of each head or, with query_quant_mode 7, one per block of rows of each head. out_dtype is the "
                    "type of the result. The other dtype arguments are compared with the types of the tensors, and "
                    "quant_scale_p is ignored.",
  });
  const std::string infer_by_tensors = with_tensors_of_lengths(kInfer);
  library.add({
      .schema = infer_by_tensors.c_str(),
      .kernel = infer_kernel(),
      .traits = {.on_host = {"actual_seq_lengths", "actual_seq_lengths_kv", "query_padding_size", "kv_padding_size",
                             "actual_shared_prefix_len"},
                 .in_pool = true},
      .definition = "npu_fused_infer_attention_score with lengths in tensors of integers, so that they may change "
                    "without another graph.",
  });
  const std::string infer_v2_by_tensors = with_tensors_of_lengths(kInferV2);
  library.add({
      .schema = infer_v2_by_tensors.c_str(),
      .kernel = infer_v2_kernel(),
      .traits = {.on_host = {"actual_seq_qlen", "actual_seq_kvlen"}, .in_pool = true},
      .definition = "npu_fused_infer_attention_score_v2 with lengths in tensors of integers, so that they may change "
                    "without another graph.",
  });
  library.add({
      .schema = "npu::npu_fused_infer_attention_score.out(Tensor query, Tensor key, Tensor value, *, Tensor? "
                "pse_shift=None, Tensor? atten_mask=None, SymInt[]? actual_seq_lengths=None, SymInt[]? "
                "actual_seq_lengths_kv=None, Tensor? dequant_scale1=None, Tensor? quant_scale1=None, Tensor? "
                "dequant_scale2=None, Tensor? quant_scale2=None, Tensor? quant_offset2=None, Tensor? "
                "antiquant_scale=None, Tensor? antiquant_offset=None, Tensor? key_antiquant_scale=None, Tensor? "
                "key_antiquant_offset=None, Tensor? value_antiquant_scale=None, Tensor? value_antiquant_offset=None, "
                "Tensor? block_table=None, Tensor? query_padding_size=None, Tensor? kv_padding_size=None, Tensor? "
                "key_shared_prefix=None, Tensor? value_shared_prefix=None, SymInt[]? actual_shared_prefix_len=None, "
                "Tensor? query_rope=None, Tensor? key_rope=None, Tensor? key_rope_antiquant_scale=None, int "
                "num_heads=1, float scale=1.0, int pre_tokens=2147483647, int next_tokens=2147483647, str "
                "input_layout=\"BSH\", int num_key_value_heads=0, int sparse_mode=0, int inner_precise=0, int "
                "block_size=0, int antiquant_mode=0, int key_antiquant_mode=0, int value_antiquant_mode=0, bool "
                "softmax_lse_flag=False, Tensor? workspace=None, Tensor[] out) -> (Tensor, Tensor)",
      .kernel = whole(boxed<&infer_out>(), boxed<&infer_out_meta>()),
      .traits = {.on_host = {"query_padding_size", "kv_padding_size"}, .in_pool = true},
      .definition = "npu_fused_infer_attention_score that writes its results into the two tensors of out, the second "
                    "one only with softmax_lse_flag. They must have as many elements as the results, and may have "
                    "other types. workspace is ignored.",
  });
  library.add({
      .schema =
          "npu::npu_fused_infer_attention_score_v2.out(Tensor query, Tensor key, Tensor value, *, Tensor? "
          "query_rope=None, Tensor? key_rope=None, Tensor? pse_shift=None, Tensor? atten_mask=None, SymInt[]? "
          "actual_seq_qlen=None, SymInt[]? actual_seq_kvlen=None, Tensor? block_table=None, Tensor? "
          "dequant_scale_query=None, Tensor? dequant_scale_key=None, Tensor? dequant_offset_key=None, Tensor? "
          "dequant_scale_value=None, Tensor? dequant_offset_value=None, Tensor? dequant_scale_key_rope=None, Tensor? "
          "quant_scale_out=None, Tensor? quant_offset_out=None, Tensor? quant_scale_p=None, Tensor? "
          "learnable_sink=None, int num_query_heads=1, int num_key_value_heads=0, float softmax_scale=1.0, int "
          "pre_tokens=2147483647, int next_tokens=2147483647, str input_layout=\"BSH\", int sparse_mode=0, int "
          "block_size=0, int query_quant_mode=0, int key_quant_mode=0, int value_quant_mode=0, int inner_precise=0, "
          "bool return_softmax_lse=False, int? query_dtype=None, int? key_dtype=None, int? value_dtype=None, int? "
          "query_rope_dtype=None, int? key_rope_dtype=None, int? key_shared_prefix_dtype=None, int? "
          "value_shared_prefix_dtype=None, int? dequant_scale_query_dtype=None, int? dequant_scale_key_dtype=None, "
          "int? dequant_scale_value_dtype=None, int? dequant_scale_key_rope_dtype=None, int? out_dtype=None, Tensor? "
          "workspace=None, Tensor[] out) -> (Tensor, Tensor)",
      .kernel = whole(boxed<&infer_out>(), boxed<&infer_out_meta>()),
      .traits = {.in_pool = true},
      .definition = "npu_fused_infer_attention_score_v2 that writes its results into the two tensors of out, the "
                    "second one only with return_softmax_lse. They must have as many elements as the results, and may "
                    "have other types. workspace is ignored.",
  });
  library.add({
      .schema =
          "npu::_npu_fused_infer_attention_score_get_max_workspace(Tensor query, Tensor key, Tensor value, *, Tensor? "
          "pse_shift=None, Tensor? atten_mask=None, SymInt[]? actual_seq_lengths=None, SymInt[]? "
          "actual_seq_lengths_kv=None, Tensor? dequant_scale1=None, Tensor? quant_scale1=None, Tensor? "
          "dequant_scale2=None, Tensor? quant_scale2=None, Tensor? quant_offset2=None, Tensor? antiquant_scale=None, "
          "Tensor? antiquant_offset=None, Tensor? key_antiquant_scale=None, Tensor? key_antiquant_offset=None, Tensor? "
          "value_antiquant_scale=None, Tensor? value_antiquant_offset=None, Tensor? block_table=None, Tensor? "
          "query_padding_size=None, Tensor? kv_padding_size=None, Tensor? key_shared_prefix=None, Tensor? "
          "value_shared_prefix=None, SymInt[]? actual_shared_prefix_len=None, Tensor? query_rope=None, Tensor? "
          "key_rope=None, Tensor? key_rope_antiquant_scale=None, int num_heads=1, float scale=1.0, int "
          "pre_tokens=2147483647, int next_tokens=2147483647, str input_layout=\"BSH\", int num_key_value_heads=0, int "
          "sparse_mode=0, int inner_precise=0, int block_size=0, int antiquant_mode=0, int key_antiquant_mode=0, int "
          "value_antiquant_mode=0, bool softmax_lse_flag=False) -> Tensor",
      .kernel = whole(boxed<&give_workspace>(), boxed<&give_workspace>()),
      .traits = {.on_host = {"query_padding_size", "kv_padding_size"}, .in_pool = true},
      .definition = kWorkspaceDefinition,
  });
  library.add({
      .schema =
          "npu::_npu_fused_infer_attention_score_v2_get_max_workspace(Tensor query, Tensor key, Tensor value, *, "
          "Tensor? query_rope=None, Tensor? key_rope=None, Tensor? pse_shift=None, Tensor? atten_mask=None, SymInt[]? "
          "actual_seq_qlen=None, SymInt[]? actual_seq_kvlen=None, Tensor? block_table=None, Tensor? "
          "dequant_scale_query=None, Tensor? dequant_scale_key=None, Tensor? dequant_offset_key=None, Tensor? "
          "dequant_scale_value=None, Tensor? dequant_offset_value=None, Tensor? dequant_scale_key_rope=None, Tensor? "
          "quant_scale_out=None, Tensor? quant_offset_out=None, Tensor? quant_scale_p=None, Tensor? "
          "learnable_sink=None, int num_query_heads=1, int num_key_value_heads=0, float softmax_scale=1.0, int "
          "pre_tokens=2147483647, int next_tokens=2147483647, str input_layout=\"BSH\", int sparse_mode=0, int "
          "block_size=0, int query_quant_mode=0, int key_quant_mode=0, int value_quant_mode=0, int inner_precise=0, "
          "bool return_softmax_lse=False, int? query_dtype=None, int? key_dtype=None, int? value_dtype=None, int? "
          "query_rope_dtype=None, int? key_rope_dtype=None, int? key_shared_prefix_dtype=None, int? "
          "value_shared_prefix_dtype=None, int? dequant_scale_query_dtype=None, int? dequant_scale_key_dtype=None, "
          "int? dequant_scale_value_dtype=None, int? dequant_scale_key_rope_dtype=None, int? out_dtype=None) -> Tensor",
      .kernel = whole(boxed<&give_workspace>(), boxed<&give_workspace>()),
      .traits = {.in_pool = true},
      .definition = kWorkspaceDefinition,
  });
  library.add({
      .schema = "npu::_npu_fused_infer_attention_score_infer_output(Tensor query, Tensor value, *, str "
                "input_layout=\"BSH\", Tensor? quant_scale2=None, Tensor? block_table=None, int num_heads=1, int "
                "num_key_value_heads=0, bool softmax_lse_flag=False, Tensor? query_rope=None) -> (Tensor, Tensor)",
      .kernel = whole(boxed<&infer_meta>(), boxed<&infer_meta>()),
      .definition = "Uninitialised tensors with the shapes and types of the results of "
                    "npu_fused_infer_attention_score. The first is in the layout of the result that input_layout "
                    "names, with num_heads heads of the size of those of value, in the type of query (int8 with "
                    "quant_scale2; otherwise, for a quantised query, in that of query_rope or float16). The second is "
                    "in float32, [B, N, S, 1] or [T, N, 1], or of size [0] without softmax_lse_flag. With block_table, "
                    "value is a cache.",
  });
  library.add({
      .schema = "npu::_npu_fused_infer_attention_score_v2_infer_output(Tensor query, Tensor value, *, int? "
                "query_dtype=None, int? value_dtype=None, str input_layout=\"BSH\", Tensor? quant_scale_out=None, "
                "Tensor? block_table=None, int num_query_heads=1, int num_key_value_heads=0, bool "
                "return_softmax_lse=False, Tensor? query_rope=None, int? out_dtype=None) -> (Tensor, Tensor)",
      .kernel = whole(boxed<&infer_meta>(), boxed<&infer_meta>()),
      .definition = "Uninitialised tensors with the shapes and types of the results of "
                    "npu_fused_infer_attention_score_v2. The first is in the layout of the result that input_layout "
                    "names, with num_query_heads heads of the size of those of value, in the type of query (in "
                    "out_dtype, or int8 with quant_scale_out; otherwise, for a quantised query, in that of query_rope "
                    "or float16). The second is in float32, [B, N, S, 1] or [T, N, 1], or of size [0] without "
                    "return_softmax_lse. With block_table, value is a cache.",
  });
  library.add({
      .schema = "npu::npu_prompt_flash_attention(Tensor query, Tensor key, Tensor value, *, Tensor? padding_mask=None, "
                "Tensor? atten_mask=None, Tensor? pse_shift=None, int[]? actual_seq_lengths=None, Tensor? "
                "deq_scale1=None, Tensor? quant_scale1=None, Tensor? deq_scale2=None, Tensor? quant_scale2=None, "
                "Tensor? quant_offset2=None, int num_heads=1, float scale_value=1.0, int pre_tokens=2147483647, int "
                "next_tokens=0, str input_layout=\"BSH\", int num_key_value_heads=0, int[]? "
                "actual_seq_lengths_kv=None, int sparse_mode=0) -> Tensor",
      .kernel = parts_unless({"actual_seq_lengths", "actual_seq_lengths_kv"}, boxed<&infer_result>(),
                             boxed<&infer_result_meta>()),
      .definition = "Attention for prefill: npu_fused_infer_attention_score that returns the attention alone. "
                    "scale_value is its scale, and deq_scale1 and deq_scale2 are its dequant_scale1 and "
                    "dequant_scale2. next_tokens is 0 by default, so that with atten_mask and sparse_mode 0 a query "
                    "does not see later keys (aligned at the first query and key). padding_mask is ignored.",
  });
  library.add({
      .schema =
          "npu::npu_incre_flash_attention(Tensor query, Tensor key, Tensor value, *, Tensor? padding_mask=None, "
          "Tensor? atten_mask=None, Tensor? pse_shift=None, SymInt[]? actual_seq_lengths=None, Tensor? "
          "antiquant_scale=None, Tensor? antiquant_offset=None, Tensor? block_table=None, Tensor? dequant_scale1=None, "
          "Tensor? quant_scale1=None, Tensor? dequant_scale2=None, Tensor? quant_scale2=None, Tensor? "
          "quant_offset2=None, Tensor? kv_padding_size=None, int num_heads=1, float scale_value=1.0, str "
          "input_layout=\"BSH\", int num_key_value_heads=0, int block_size=0, int inner_precise=1) -> Tensor",
      .kernel = parts_unless({"actual_seq_lengths", "block_table", "kv_padding_size"}, boxed<&infer_result>(),
                             boxed<&infer_result_meta>()),
      .traits = {.on_host = {"kv_padding_size"}},
      .definition = "Attention for decoding: npu_fused_infer_attention_score that returns the attention alone. "
                    "actual_seq_lengths are the lengths of the keys, and scale_value is its scale. padding_mask is "
                    "ignored.",
  });
}

}  // namespace npugraph::npu_ops
