// SPDX-License-Identifier: Apache-2.0
// Attention for training with queries, keys and values in float8.
#include <tuple>

#include "device/npu_ops/attention/attention_core.h"
#include "device/npu_ops/attention/stored_rows.h"
#include "device/npu_ops/families.h"

namespace npugraph::npu_ops {
namespace {

constexpr at::ScalarType kResultType = at::kBFloat16;

struct ScaledInput {
  const char* name;
  const Tensor& values;
  const Tensor& scale;
};

void check_scaled_input(const char* op, const ScaledInput& given, std::optional<int64_t> query_dtype) {
  check_type(op, given.name, given.values, {at::kFloat8_e4m3fn, at::kFloat8_e5m2});
  const at::ScalarType said = type_of_code(op, "query_dtype", query_dtype, given.values.scalar_type());
  TORCH_CHECK(said == given.values.scalar_type(), op, ": query_dtype is ", said, ", and ", given.name, " is of type ",
              given.values.scalar_type());
}

struct QuantCall {
  const char* op;
  int64_t heads;
  Axes axes;
  std::optional<int64_t> query_dtype;
};

// Dequantised values in float32, [batches, heads, rows, size].
Tensor dequantised_heads(const QuantCall& call, const ScaledInput& given, const c10::SymInt& heads) {
  check_scaled_input(call.op, given, call.query_dtype);
  const Tensor stored = to_heads(call.op, given.name, given.values, call.axes, heads);
  const Tensor scale = wide(given.scale);
  const bool is_one = scale.sym_numel() == 1;
  return wide(stored) * (is_one ? scale.reshape({1, 1, 1, 1}) : scale_of_blocks(call.op, given.name, scale, stored));
}

struct Operands {
  Tensor query, key, value;
};

Operands operands(const QuantCall& call, const ScaledInput& query, const ScaledInput& key, const ScaledInput& value) {
  TORCH_CHECK(!is_packed(call.axes), call.op, ": input_layout has packed rows, allowed are BSH, SBH, BSND and BNSD");
  Operands out{.query = dequantised_heads(call, query, call.heads)};
  TORCH_CHECK(out.query.sym_size(1) == call.heads, call.op, ": head_num is ", call.heads, ", and query has ",
              out.query.sym_size(1), " heads");
  const int64_t key_heads = heads_of_rows(key.values, call.axes, out.query.sym_size(3));
  out.key = dequantised_heads(call, key, key_heads);
  out.value = dequantised_heads(call, value, key_heads);
  check_heads(call.op, out.query, out.key, out.value);
  return out;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, int64_t, int64_t, int64_t> quant_fusion_attention(
    const Tensor& query, const Tensor& key, const Tensor& value, int64_t head_num, c10::string_view input_layout,
    const Tensor& d_scale_q, const Tensor& d_scale_k, const Tensor& d_scale_v, const OptionalTensor& /*p_scale*/,
    double scale, std::optional<int64_t> query_dtype) {
  const char* op = "npu_quant_fusion_attention";
  const QuantCall call{op, head_num, layout_of(op, input_layout).in, query_dtype};
  const Operands x = operands(call, {"query", query, d_scale_q}, {"key", key, d_scale_k}, {"value", value, d_scale_v});
  const Attention out = attend_with_statistics(x.query, x.key, x.value, {.scale = scale});
  const auto copies = [&](const Tensor& statistics) {
    return statistics_from_heads(statistics.expand({-1, -1, -1, kStatisticsCopies}), call.axes);
  };
  const Tensor result = from_heads(out.result, call.axes).to(kResultType);
  return {result, copies(out.max), copies(out.sum), result.new_empty({0}), 0, 0, 0};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> quant_fusion_attention_backward(
    const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& dy, int64_t head_num,
    c10::string_view input_layout, const Tensor& d_scale_q, const Tensor& d_scale_k, const Tensor& d_scale_v,
    const Tensor& d_scale_dy, const OptionalTensor& /*p_scale*/, const OptionalTensor& /*ds_scale*/,
    const OptionalTensor& softmax_max, const OptionalTensor& softmax_sum, const OptionalTensor& attention_in,
    double scale_value, std::optional<int64_t> query_dtype) {
  const char* op = "npu_quant_fusion_attention_backward";
  const QuantCall call{op, head_num, layout_of(op, input_layout).in, query_dtype};
  const Operands x = operands(call, {"query", query, d_scale_q}, {"key", key, d_scale_k}, {"value", value, d_scale_v});
  const Weighting weighting{.scale = scale_value};
  const Tensor given = dequantised_heads({op, head_num, call.axes, std::nullopt}, {"dy", dy, d_scale_dy}, head_num);
  const auto row = [](const Tensor& statistics) { return statistics.narrow(-1, 0, 1); };
  const bool is_saved = softmax_max && softmax_sum && attention_in;
  const Attention saved = is_saved ? Attention{to_heads(op, "attention_in", *attention_in, call.axes, head_num),
                                               row(*softmax_max), row(*softmax_sum)}
                                   : attend_with_statistics(x.query, x.key, x.value, weighting);
  const AttentionGradients out = attention_gradients(x.query, x.key, x.value, weighting, saved, given);
  const auto typed = [&](const Tensor& exact) { return from_heads(exact, call.axes).to(kResultType); };
  const auto none = [&] { return given.new_empty({0}); };
  return {typed(out.query), typed(out.key), typed(out.value), none(), none(), none(), none()};
}

}  // namespace

void define_quant_fusion_attention(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_quant_fusion_attention(Tensor query, Tensor key, Tensor value, int head_num, str "
                "input_layout, *, Tensor d_scale_q, Tensor d_scale_k, Tensor d_scale_v, Tensor? p_scale=None, float "
                "scale=1., int? query_dtype=None) -> (Tensor, Tensor, Tensor, Tensor, int, int, int)",
      .kernel = parts(&quant_fusion_attention),
      .definition = "Attention for training with query, key and value in float8: softmax(scale * q @ k^T) @ v, where "
                    "q, k and v are the arguments times d_scale_q, d_scale_k and d_scale_v. input_layout is BSH, SBH, "
                    "BSND or BNSD. A scale is one number, or [B, N, blocks, 1] for blocks of rows, whose size is the "
                    "least power of two with which this number of blocks covers all rows. Computed in float32: "
                    "softmax weights are not rounded to float8, and p_scale is ignored. Results: the attention in "
                    "bfloat16; the maximum and the sum of the softmax in float32, [B, N, S, 8], in 8 equal copies; an "
                    "empty tensor; and 0 in the places of seed, offset and number of weights of dropout. query_dtype "
                    "is compared with the types of the tensors.",
  });
  library.add({
      .schema = "npu::npu_quant_fusion_attention_backward(Tensor query, Tensor key, Tensor value, Tensor dy, int "
                "head_num, str input_layout, Tensor d_scale_q, Tensor d_scale_k, Tensor d_scale_v, Tensor d_scale_dy, "
                "*, Tensor? p_scale=None, Tensor? ds_scale=None, Tensor? softmax_max=None, Tensor? softmax_sum=None, "
                "Tensor? attention_in=None, float scale_value=1., int? query_dtype=None) -> (Tensor, Tensor, Tensor, "
                "Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&quant_fusion_attention_backward),
      .definition = "Gradients of npu_quant_fusion_attention for query, key and value, in bfloat16 (FlashAttention-2, "
                    "Dao, 2023). dy, the gradient of its first result, is in float8 and multiplied by d_scale_dy. "
                    "softmax_max, softmax_sum and attention_in are results of the forward call; if one is absent, "
                    "they are computed again. p_scale and ds_scale are ignored. Results: the three gradients, and "
                    "four tensors of size [0].",
  });
}

}  // namespace npugraph::npu_ops
