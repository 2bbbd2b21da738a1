// SPDX-License-Identifier: Apache-2.0
// Rotary embedding of query and key, and quantised caches of key and value. Computed in float32.
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/parts/rows.h"
#include "device/npu_ops/quantisation/quantisation.h"
#include "device/npu_ops/rotary/rope_cache.h"
#include "device/npu_ops/rotary/rotations.h"

namespace npugraph::npu_ops {
namespace {

using Results = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

// The arguments that both operators have.
struct Caches {
  const Tensor &k_cache, &v_cache, &indices, &scale_k, &scale_v;
  const OptionalTensor &offset_k, &offset_v;
  c10::string_view mode;
};

// Writes `tokens`, (batch, length, heads, dim), into sequence b from place indices[b] on ("contiguous"), or into the
// slots `indices` ("page").
void put_tokens(const char* op, const Tensor& tokens, const Tensor& cache, const Tensor& indices,
                c10::string_view mode) {
  check_dims(op, "k_cache and v_cache", cache, 4, 4);
  if (mode == "page") return put_in_pages(cache, tokens.flatten(0, 1), indices.flatten());
  TORCH_CHECK(mode == "contiguous", op, ": cache_mode is '", mode, "', allowed are 'contiguous' and 'page'");
  const Tensor sequence = at::arange(tokens.sym_size(0), indices.options()).unsqueeze(1);
  const Tensor of_row = sequence.expand_symint({tokens.sym_size(0), tokens.sym_size(1)}).flatten();
  put_rows(cache, {of_row, spans(indices, tokens.sym_size(1))}, tokens.flatten(0, 1));
}

Results rope_into_caches(const char* op, const Tensor& exact, at::ScalarType type, const Tensor& cos, const Tensor& sin,
                         at::IntArrayRef size_splits, int64_t quant_mode, c10::string_view input_layout, bool kv_output,
                         const Caches& caches) {
  check_dims(op, "x", exact, 3, 3);
  TORCH_CHECK(input_layout == "BSND", op, ": input_layout is '", input_layout, "', allowed is 'BSND'");
  TORCH_CHECK(quant_mode == 0, op, ": quant_mode is ", quant_mode, ", allowed is 0 (static)");
  const c10::SymInt dim = cos.sym_size(-1);
  const auto parts = exact.split_with_sizes(size_splits, -1);
  const auto heads = [&](const Tensor& x) { return x.unflatten_symint(-1, {-1, dim}); };
  const Tensor query = rotated(heads(parts[0]), cos, sin, Rotation::kHalf);
  const Tensor key = rotated(heads(parts[1]), cos, sin, Rotation::kHalf);
  const Tensor value = heads(parts[2]);
  put_tokens(op, for_cache(op, key, caches.k_cache, caches.scale_k, caches.offset_k, /*divide=*/true), caches.k_cache,
             caches.indices, caches.mode);
  put_tokens(op, for_cache(op, value, caches.v_cache, caches.scale_v, caches.offset_v, /*divide=*/true), caches.v_cache,
             caches.indices, caches.mode);
  const auto result = [&](const Tensor& x) {
    return kv_output ? x.to(type, /*non_blocking=*/false, /*copy=*/true) : x.new_empty({0}, type);
  };
  return {query.to(type), result(key), result(value), caches.k_cache, caches.v_cache};
}

Results rope_quant_kvcache(const Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& k_cache,
                           const Tensor& v_cache, const Tensor& indices, const Tensor& scale_k, const Tensor& scale_v,
                           at::IntArrayRef size_splits, const OptionalTensor& offset_k, const OptionalTensor& offset_v,
                           int64_t quant_mode, c10::string_view input_layout, bool kv_output,
                           c10::string_view cache_mode) {
  const char* op = "npu_rope_quant_kvcache";
  check_floating(op, "x", x);
  return rope_into_caches(op, wide(x), x.scalar_type(), cos, sin, size_splits, quant_mode, input_layout, kv_output,
                          {k_cache, v_cache, indices, scale_k, scale_v, offset_k, offset_v, cache_mode});
}

// x * weight_scale * activation_scale + bias; a bias in int32 is added to x before the scales.
Tensor dequantised_qkv(const Tensor& x, const OptionalTensor& weight_scale, const OptionalTensor& activation_scale,
                       const OptionalTensor& bias) {
  const Tensor shift = wide(bias), of_weight = wide(weight_scale), of_row = wide(activation_scale);
  const bool is_before = shift.defined() && bias->scalar_type() == at::kInt;
  Tensor out = is_before ? wide(x + *bias) : wide(x);
  if (of_weight.defined()) out = out * of_weight;
  if (of_row.defined()) out = out * of_row.unsqueeze(-1).view_symint({x.sym_size(0), x.sym_size(1), 1});
  return shift.defined() && !is_before ? out + shift : out;
}

Results dequant_rope_quant_kvcache(const Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& k_cache,
                                   const Tensor& v_cache, const Tensor& indices, const Tensor& scale_k,
                                   const Tensor& scale_v, at::IntArrayRef size_splits, const OptionalTensor& offset_k,
                                   const OptionalTensor& offset_v, const OptionalTensor& weight_scale,
                                   const OptionalTensor& activation_scale, const OptionalTensor& bias,
                                   int64_t quant_mode, c10::string_view input_layout, bool kv_output,
                                   c10::string_view cache_mode) {
  const char* op = "npu_dequant_rope_quant_kvcache";
  check_type(op, "x", x, {at::kInt, at::kFloat, at::kHalf, at::kBFloat16, at::kDouble});
  check_dims(op, "x", x, 3, 3);
  const at::ScalarType type = x.scalar_type() == at::kInt ? cos.scalar_type() : x.scalar_type();
  return rope_into_caches(op, dequantised_qkv(x, weight_scale, activation_scale, bias), type, cos, sin, size_splits,
                          quant_mode, input_layout, kv_output,
                          {k_cache, v_cache, indices, scale_k, scale_v, offset_k, offset_v, cache_mode});
}

}  // namespace

void define_rope_quant_cache(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_rope_quant_kvcache(Tensor x, Tensor cos, Tensor sin, Tensor k_cache, Tensor v_cache, Tensor "
                "indices, Tensor scale_k, Tensor scale_v, int[3] size_splits, *, Tensor? offset_k=None, Tensor? "
                "offset_v=None, int quant_mode=0, str input_layout=\"BSND\", bool kv_output=False, str "
                "cache_mode=\"contiguous\") -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = composite(&rope_quant_kvcache),
      .definition = "Rotary position embedding of query and key, and writing of key and value into quantised caches "
                    "in place. x is [B, S, columns], and size_splits has the columns of query, key and value. query "
                    "and key pass through npu_rotary_mul of the mode half, where cos and sin broadcast against [B, S, "
                    "N, D]. Caches in int8 get round(key / scale_k + offset_k) and round(value / scale_v + offset_v). "
                    "With cache_mode contiguous they are [B, places, N, D], and sequence b is written from place "
                    "indices[b] on; with page they are [pages, rows of a page, N, D], and indices has the slots of "
                    "the tokens. Negative indices are skipped. quant_mode must be 0 and input_layout must be BSND. "
                    "Results: query, key and value, [B, S, N, D] in the type of x, of which key and value are empty "
                    "without kv_output; k_cache and v_cache.",
  });
  library.add({
      .schema = "npu::npu_dequant_rope_quant_kvcache(Tensor x, Tensor cos, Tensor sin, Tensor k_cache, Tensor v_cache, "
                "Tensor indices, Tensor scale_k, Tensor scale_v, int[3] size_splits, *, Tensor? offset_k=None, Tensor? "
                "offset_v=None, Tensor? weight_scale=None, Tensor? activation_scale=None, Tensor? bias=None, int "
                "quant_mode=0, str input_layout=\"BSND\", bool kv_output=False, str cache_mode=\"contiguous\") -> "
                "(Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = composite(&dequant_rope_quant_kvcache),
      .definition = "npu_rope_quant_kvcache that first dequantises x, the result of a quantised GEMM: x * "
                    "weight_scale * activation_scale + bias, or (x + bias) * weight_scale * activation_scale if bias "
                    "is in int32. x is in int32 or a floating type. weight_scale has one scale per column, and "
                    "activation_scale one per token, B * S in all. query, key and value have the type of cos if x is "
                    "in int32.",
  });
}

}  // namespace npugraph::npu_ops
