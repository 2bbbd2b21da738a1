// SPDX-License-Identifier: Apache-2.0
// The projections before multi-head latent attention (DeepSeek-V2, 2024) as in ATB: with the normalisation before them,
// and in int8 if the weights are.
#include <algorithm>
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/matmul/quant_products.h"
#include "device/npu_ops/norms/norms.h"
#include "device/npu_ops/parts/rows.h"
#include "device/npu_ops/rotary/rope_cache.h"
#include "device/npu_ops/rotary/rotations.h"

namespace npugraph::npu_ops {
namespace {

constexpr double kEpsilon = 1e-6;  // as in DeepSeek-V2

struct LinearLayer {
  const char* weight_name;
  const Tensor& weight;
  const Tensor& descale;  // one for each column of the result
  const OptionalTensor &scale, &offset, &bias;
};

struct PreprocessCall {
  const char* op;
  const Tensor &input, &gamma0, &beta0, &gamma1, &beta1, &gamma2, &cos, &sin, &wuk, &slots;
  LinearLayer down, up;
  const OptionalTensor &latent_scale, &query_scale;
  c10::string_view cache_mode, quant_mode;
  bool quantises_latent() const { return cache_mode == "int8_nzcache"; }
};

void check_preprocess_modes(const PreprocessCall& call) {
  const auto is_one_of = [](c10::string_view text, std::initializer_list<c10::string_view> allowed) {
    return std::find(allowed.begin(), allowed.end(), text) != allowed.end();
  };
  TORCH_CHECK(is_one_of(call.cache_mode, {"krope_ctkv", "int8_nzcache", "nzcache"}), call.op, ": cache_mode is '",
              call.cache_mode, "', allowed are 'krope_ctkv', 'int8_nzcache' and 'nzcache'");
  TORCH_CHECK(is_one_of(call.quant_mode, {"per_tensor_quant_asymm", "per_token_quant_symm", "no_quant"}), call.op,
              ": quant_mode is '", call.quant_mode,
              "', allowed are 'per_tensor_quant_asymm', 'per_token_quant_symm' and 'no_quant'");
  check_floating(call.op, "input", call.input);
  check_dims(call.op, "input", call.input, 2, 2);
  check_dims(call.op, "cos", call.cos, 2, 2);
}

// [groups, rows, columns] of a weight that may be stored in pieces of rows, [groups, columns / n, rows, n] (NZ).
Tensor without_pieces(const Tensor& weight) { return weight.dim() == 4 ? weight.transpose(1, 2).flatten(2) : weight; }

// The weight as (columns of the result, columns of the rows).
Tensor matrix(const PreprocessCall& call, const LinearLayer& layer) {
  check_dims(call.op, layer.weight_name, layer.weight, 2, 4);
  const Tensor weight = without_pieces(layer.weight);
  return weight.dim() == 3 ? weight.flatten(0, 1) : weight;
}

// Callers pass empty tensors for arguments that their mode does not use.
bool is_given(const OptionalTensor& tensor) { return tensor && tensor->defined() && tensor->sym_numel() != 0; }
OptionalTensor unless_empty(const OptionalTensor& tensor) { return is_given(tensor) ? tensor : std::nullopt; }

const Tensor& needed(const PreprocessCall& call, const LinearLayer& layer, const char* what,
                     const OptionalTensor& tensor) {
  TORCH_CHECK(is_given(tensor), call.op, ": ", what, " of ", layer.weight_name, " is needed");
  return *tensor;
}

// exact @ weight^T, with `exact` rounded to the type of the input, or quantised if the weight is.
Tensor through_layer(const PreprocessCall& call, const LinearLayer& layer, const Tensor& exact) {
  const at::ScalarType type = call.input.scalar_type();
  const Tensor weight = matrix(call, layer);
  TORCH_CHECK(weight.sym_size(1) == exact.sym_size(1), call.op, ": ", layer.weight_name, " has rows of ",
              weight.sym_size(1), ", for rows of ", exact.sym_size(1));
  if (weight.scalar_type() != at::kChar) {
    const Tensor out = wide(exact.to(type)).matmul(wide(weight).t());
    return is_given(layer.bias) ? out + wide(*layer.bias) : out;
  }
  Epilogue epilogue{.bias = unless_empty(layer.bias),
                    .scale = decoded_scale(call.op, "descale", layer.descale).factor.flatten()};
  Tensor rows;
  if (call.quant_mode == "per_token_quant_symm") {
    const Quantised quantised = dynamically_quantised(call.op, exact, -1, QuantType{});
    rows = quantised.values;
    epilogue.pertoken_scale = quantised.scale;
  } else {
    rows = statically_quantised(call.op, exact, needed(call, layer, "the scale", layer.scale),
                                wide(unless_empty(layer.offset)),
                                /*divide=*/true, QuantType{});
  }
  return wide(finished(call.op, int8_product(rows, weight.t()), epilogue, type));
}

Tensor normed(const PreprocessCall& call, const Tensor& x, const Tensor& gamma, const Tensor& beta) {
  const Tensor out = rms_normed(call.op, x, gamma, kEpsilon).wide;
  return is_given(beta) ? out + wide(beta) : out;
}

struct LatentQuery {
  Tensor latent, rope;  // [tokens, heads, ..]
};

LatentQuery make_latent_query(const PreprocessCall& call, const Tensor& down) {
  const Tensor up = through_layer(call, call.up, normed(call, down, call.gamma1, call.beta1));
  const Tensor to_latent = without_pieces(call.wuk);
  check_dims(call.op, "wuk", call.wuk, 3, 4);
  const c10::SymInt heads = to_latent.sym_size(0), size = to_latent.sym_size(1), rope = call.cos.sym_size(1);
  TORCH_CHECK(up.sym_size(1) == heads * (size + rope), call.op, ": wuq has ", up.sym_size(1),
              " rows, and not those of ", heads, " heads of size ", size, " + ", rope);
  const Tensor all = up.unflatten_symint(1, {heads, size + rope});
  const Tensor turned =
      rotated(all.narrow_symint(-1, size, rope), call.cos.unsqueeze(1), call.sin.unsqueeze(1), Rotation::kHalf);
  const Tensor latent = all.narrow_symint(-1, 0, size).transpose(0, 1).matmul(wide(to_latent)).transpose(0, 1);
  const at::ScalarType type = call.input.scalar_type();
  if (!call.quantises_latent()) return {latent.contiguous().to(type), turned.to(type)};
  const Tensor scale = needed(call, call.up, "q_nope_scale, for int8_nzcache,", call.query_scale).reshape({-1, 1});
  return {statically_quantised(call.op, latent.contiguous(), scale, Tensor(), /*divide=*/true, QuantType{}),
          turned.to(type)};
}

// Writes `rows` into `cache`. Its pages are (places, heads, size), in memory of the layout NZ in the modes of that
// name; or they have the shape of NZ, (pieces, places, n).
void put_in_mla_cache(const PreprocessCall& call, const Tensor& rows, const Tensor& cache) {
  check_dims(call.op, "kv_cache", cache, 4, 4);
  const bool is_plain = call.cache_mode == "krope_ctkv";
  if (is_plain || cache.sym_size(3) == rows.sym_size(1))
    return put_in_cache(call.op, cache, rows.unsqueeze(1).unsqueeze(1), call.slots, is_plain ? "PA_BSND" : "PA_NZ");
  put_in_pages(pages_of_pieces(cache), rows, call.slots.flatten());
}

LatentQuery preprocess(const PreprocessCall& call, const Tensor& kv_cache, const Tensor& rope_cache) {
  check_preprocess_modes(call);
  const Tensor down = through_layer(call, call.down, normed(call, call.input, call.gamma0, call.beta0));
  const c10::SymInt latent = call.gamma2.sym_size(0), rope = call.cos.sym_size(1), query = call.gamma1.sym_size(0);
  TORCH_CHECK(down.sym_size(1) == latent + rope + query, call.op, ": wdqkv has ", down.sym_size(1),
              " rows, and not those of gamma2, cos and gamma1, ", latent, " + ", rope, " + ", query);
  const Tensor norm = rms_normed(call.op, down.narrow_symint(1, 0, latent), call.gamma2, kEpsilon).wide;
  const Tensor key = rotated(down.narrow_symint(1, latent, rope), call.cos, call.sin, Rotation::kHalf);
  const OptionalTensor scale = call.quantises_latent() ? call.latent_scale : std::nullopt;
  put_in_mla_cache(call, for_cache(call.op, norm, kv_cache, scale, std::nullopt, /*divide=*/true), kv_cache);
  put_in_mla_cache(call, key.to(rope_cache.scalar_type()), rope_cache);
  return make_latent_query(call, down.narrow_symint(1, latent + rope, query));
}

std::tuple<Tensor, Tensor, Tensor, Tensor> mla_preprocess(
    const Tensor& input, const Tensor& gamma0, const Tensor& beta0, const Tensor& wdqkv, const Tensor& descale0,
    const Tensor& gamma1, const Tensor& beta1, const Tensor& wuq, const Tensor& descale1, const Tensor& gamma2,
    const Tensor& cos, const Tensor& sin, const Tensor& wuk, const Tensor& kv_cache, const Tensor& kv_cache_rope,
    const Tensor& slotmapping, const OptionalTensor& quant_scale0, const OptionalTensor& quant_offset0,
    const OptionalTensor& bias0, const OptionalTensor& quant_scale1, const OptionalTensor& quant_offset1,
    const OptionalTensor& bias1, const OptionalTensor& ctkv_scale, const OptionalTensor& q_nope_scale,
    OptionalString cache_mode, OptionalString quant_mode) {
  const PreprocessCall call{"npu_mla_preprocess",
                            input,
                            gamma0,
                            beta0,
                            gamma1,
                            beta1,
                            gamma2,
                            cos,
                            sin,
                            wuk,
                            slotmapping,
                            {"wdqkv", wdqkv, descale0, quant_scale0, quant_offset0, bias0},
                            {"wuq", wuq, descale1, quant_scale1, quant_offset1, bias1},
                            ctkv_scale,
                            q_nope_scale,
                            cache_mode.value_or("krope_ctkv"),
                            quant_mode.value_or("per_tensor_quant_asymm")};
  const LatentQuery out = preprocess(call, kv_cache, kv_cache_rope);
  return {out.latent, kv_cache, out.rope, kv_cache_rope};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> mla_preprocess_out(
    const Tensor& input, const Tensor& gamma0, const Tensor& beta0, const Tensor& wdqkv, const Tensor& descale0,
    const Tensor& gamma1, const Tensor& beta1, const Tensor& wuq, const Tensor& descale1, const Tensor& gamma2,
    const Tensor& cos, const Tensor& sin, const Tensor& wuk, const Tensor& /*kv_cache: kv_cache_out0*/,
    const Tensor& /*kv_cache_rope: kv_cache_out1*/, const Tensor& slotmapping, const OptionalTensor& quant_scale0,
    const OptionalTensor& quant_offset0, const OptionalTensor& bias0, const OptionalTensor& quant_scale1,
    const OptionalTensor& quant_offset1, const OptionalTensor& bias1, const OptionalTensor& ctkv_scale,
    const OptionalTensor& q_nope_scale, OptionalString cache_mode, OptionalString quant_mode, Tensor& q_out0,
    Tensor& kv_cache_out0, Tensor& q_out1, Tensor& kv_cache_out1) {
  const auto [latent, latent_cache, rope, rope_cache] =
      mla_preprocess(input, gamma0, beta0, wdqkv, descale0, gamma1, beta1, wuq, descale1, gamma2, cos, sin, wuk,
                     kv_cache_out0, kv_cache_out1, slotmapping, quant_scale0, quant_offset0, bias0, quant_scale1,
                     quant_offset1, bias1, ctkv_scale, q_nope_scale, cache_mode, quant_mode);
  q_out0.copy_(latent.view_symint(q_out0.sym_sizes()));
  q_out1.copy_(rope.view_symint(q_out1.sym_sizes()));
  return {q_out0, kv_cache_out0, q_out1, kv_cache_out1};
}

}  // namespace

void define_mla_preprocess(OperatorLibrary& library) {
  library.add({
      .schema = "atb::npu_mla_preprocess(Tensor input, Tensor gamma0, Tensor beta0, Tensor wdqkv, Tensor descale0, "
                "Tensor gamma1, Tensor beta1, Tensor wuq, Tensor descale1, Tensor gamma2, Tensor cos, Tensor sin, "
                "Tensor wuk, Tensor kv_cache, Tensor kv_cache_rope, Tensor slotmapping, *, Tensor? quant_scale0=None, "
                "Tensor? quant_offset0=None, Tensor? bias0=None, Tensor? quant_scale1=None, Tensor? "
                "quant_offset1=None, Tensor? bias1=None, Tensor? ctkv_scale=None, Tensor? q_nope_scale=None, str? "
                "cache_mode=None, str? quant_mode=None) -> (Tensor, Tensor, Tensor, Tensor)",
      .kernel = composite(&mla_preprocess),
      .definition = "The projections before multi-head latent attention (DeepSeek-V2, 2024), with RMS normalisation "
                    "(epsilon 1e-6), rotary position embedding (npu_rotary_mul of the mode half) and the writing of "
                    "paged caches in place. rms stands for the first result of npu_rms_norm. (rms(input, gamma0) + "
                    "beta0) @ wdqkv^T has the parts latent, key and query, of the sizes L of gamma2, R of cos and Q of "
                    "gamma1. rms(latent, gamma2) is written into kv_cache, and the rotated key into kv_cache_rope, at "
                    "the slots slotmapping; negative slots are skipped. (rms(query, gamma1) + beta1) @ wuq^T has N "
                    "heads of D + R elements: the first D are multiplied by wuk of the head, and the others are "
                    "rotated. input is [T, H], wdqkv is [L + R + Q, H], wuq is [N * (D + R), Q], wuk is [N, D, L], and "
                    "cos and sin are [T, R]. A weight of 4 dimensions is in the layout NZ, [1, columns / n, rows, n], "
                    "and wuk [N, L / n, D, n]. kv_cache is [pages, rows of a page, 1, L] and kv_cache_rope [pages, "
                    "rows of a page, 1, R]; slot s is row s % rows of page s / rows. cache_mode is krope_ctkv (the "
                    "default), nzcache or int8_nzcache. In the last two the memory of a page is in the layout NZ, "
                    "[elements / n, rows of a page, n] with n elements in 32 bytes, and the caches may have this "
                    "shape, too. wdqkv and wuq may be in int8; arguments that end in 0 belong to wdqkv and those in 1 "
                    "to wuq. With quant_mode per_tensor_quant_asymm (the default) the input of such a weight becomes "
                    "round(x / quant_scale + quant_offset), saturated, and the product (sums + bias) * descale with "
                    "bias in int32. With per_token_quant_symm it becomes round(x / s), where s = max(abs(x)) / 127 for "
                    "each token, and the product (sums + bias) * descale * s. no_quant is the same as the default: the "
                    "types of the weights say what is quantised. To the product of a floating weight its bias is "
                    "added, too. Empty tensors stand for absent arguments, also for beta0 and beta1. int8_nzcache also "
                    "quantises the latent, round(x / ctkv_scale), if kv_cache is in int8 and ctkv_scale is given, and "
                    "the query, round(x / q_nope_scale) with one scale per head. Results: the query, [T, N, L], in the "
                    "type of input, or in int8 with int8_nzcache; kv_cache; the rotated part of the query, [T, N, R], "
                    "in the type of input; kv_cache_rope.",
  });
  library.add({
      .schema = "atb::npu_mla_preprocess.out(Tensor input, Tensor gamma0, Tensor beta0, Tensor wdqkv, Tensor descale0, "
                "Tensor gamma1, Tensor beta1, Tensor wuq, Tensor descale1, Tensor gamma2, Tensor cos, Tensor sin, "
                "Tensor wuk, Tensor kv_cache, Tensor kv_cache_rope, Tensor slotmapping, *, Tensor? quant_scale0=None, "
                "Tensor? quant_offset0=None, Tensor? bias0=None, Tensor? quant_scale1=None, Tensor? "
                "quant_offset1=None, Tensor? bias1=None, Tensor? ctkv_scale=None, Tensor? q_nope_scale=None, str? "
                "cache_mode=None, str? quant_mode=None, Tensor(a!) q_out0, Tensor(b!) kv_cache_out0, Tensor(c!) "
                "q_out1, Tensor(d!) kv_cache_out1) -> (Tensor(a!), Tensor(b!), Tensor(c!), Tensor(d!))",
      .kernel = composite(&mla_preprocess_out),
      .definition = "npu_mla_preprocess that writes the query into q_out0 and its rotated part into q_out1, which must "
                    "have as many elements and may have other types. The caches are kv_cache_out0 and kv_cache_out1; "
                    "kv_cache and kv_cache_rope are ignored.",
  });
}

}  // namespace npugraph::npu_ops
