// SPDX-License-Identifier: Apache-2.0
// The projections before multi-head latent attention (DeepSeek-V2, 2024). Computed in float32.
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/norms/norms.h"
#include "device/npu_ops/parts/rows.h"
#include "device/npu_ops/quantisation/quantisation.h"
#include "device/npu_ops/rotary/rope_cache.h"
#include "device/npu_ops/rotary/rotations.h"

namespace npugraph::npu_ops {
namespace {

struct Weights {
  const Tensor &dq, &uq_qr, &uk, &dkv_kr, &gamma_cq, &gamma_ckv;
};

struct Scales {
  const OptionalTensor &x, &w_dq, &w_uq_qr, &w_dkv_kr, &ckv, &ckr, &smooth_cq;
};

struct Settings {
  double epsilon_cq, epsilon_ckv;
  c10::string_view cache_mode;
  double query_scale = 1, key_scale = 1;
};

struct PrologQuery {
  Tensor nope, rope, nope_scale;  // nope_scale is empty unless nope is in int8
  Tensor norm, norm_scale;        // the latent that all heads are projected from
};

bool is_quantised(const Tensor& x) { return x.scalar_type() == at::kChar; }

// x @ weight in float32, exact for int8, times the scales of its rows and columns.
Tensor projected(const Tensor& x, const Tensor& weight, const OptionalTensor& of_rows,
                 const OptionalTensor& of_columns) {
  if (!is_quantised(weight)) return at::matmul(wide(x), wide(weight));
  Tensor out = at::matmul(x.to(at::kDouble), weight.to(at::kDouble)).to(at::kFloat);
  if (const Tensor scale = wide(of_rows); scale.defined()) out = out * scale.reshape({-1, 1});
  if (const Tensor scale = wide(of_columns); scale.defined()) out = out * scale.flatten();
  return out;
}

// `tokens` and all other tensors here have one dimension of tokens, without batches. `type` is the type of results
// that are not quantised.
PrologQuery make_prolog_query(const char* op, const Tensor& tokens, const Weights& weights, const Scales& scales,
                              const Tensor& cos, const Tensor& sin, const Settings& settings, at::ScalarType type,
                              bool quantise_nope) {
  const Tensor down = projected(tokens, weights.dq, scales.x, scales.w_dq);
  Tensor norm = rms_normed(op, down, weights.gamma_cq, settings.epsilon_cq).wide.to(type);
  Tensor norm_scale = norm.new_empty({0}, at::kFloat);
  if (is_quantised(weights.uq_qr)) {
    const Tensor smooth = wide(scales.smooth_cq);
    const Quantised rows =
        dynamically_quantised(op, smooth.defined() ? wide(norm) * smooth.flatten() : wide(norm), -1, QuantType{});
    norm = rows.values;
    norm_scale = rows.scale.unsqueeze(-1);
  }
  const OptionalTensor of_rows = is_quantised(weights.uq_qr) ? OptionalTensor(norm_scale) : std::nullopt;
  const Tensor up = projected(norm, weights.uq_qr, of_rows, scales.w_uq_qr) * settings.query_scale;
  const c10::SymInt dim = weights.uk.sym_size(1), rope_dim = cos.sym_size(-1);
  const Tensor heads = up.unflatten_symint(-1, {weights.uk.sym_size(0), dim + rope_dim});
  const Tensor rope =
      rotated(evens_first(heads.narrow_symint(-1, dim, rope_dim)), cos.unsqueeze(1), sin.unsqueeze(1), Rotation::kHalf);
  // Per head: (heads, tokens, dim) @ (heads, dim, latent).
  const Tensor exact = heads.narrow_symint(-1, 0, dim).to(type);
  const Tensor nope = at::matmul(wide(exact).transpose(0, 1), wide(weights.uk)).transpose(0, 1).contiguous();
  if (!quantise_nope) return {nope.to(type), rope.to(type), nope.new_empty({0}, at::kFloat), norm, norm_scale};
  const Quantised rows = dynamically_quantised(op, nope, -1, QuantType{});
  return {rows.values, rope.to(type), rows.scale.unsqueeze(-1), norm, norm_scale};
}

void fill_caches(const char* op, const Tensor& tokens, const Weights& weights, const Scales& scales, const Tensor& cos,
                 const Tensor& sin, const Tensor& cache_index, const Tensor& kv_cache, const Tensor& kr_cache,
                 const Settings& settings) {
  const Tensor down = projected(tokens, weights.dkv_kr, scales.x, scales.w_dkv_kr);
  const c10::SymInt size = weights.gamma_ckv.sym_size(0);
  const Tensor latent = rms_normed(op, down.narrow_symint(-1, 0, size), weights.gamma_ckv, settings.epsilon_ckv).wide *
                        settings.key_scale;
  const Tensor key = rotated(evens_first(down.narrow_symint(-1, size, cos.sym_size(-1))), cos, sin, Rotation::kHalf);
  const auto put = [&](const Tensor& exact, const Tensor& cache, const OptionalTensor& scale) {
    const Tensor values = for_cache(op, exact, cache, scale, std::nullopt, /*divide=*/false);
    put_in_cache(op, cache, values.unsqueeze(0).unsqueeze(2), cache_index, settings.cache_mode);
  };
  put(latent, kv_cache, scales.ckv);
  put(key, kr_cache, scales.ckr);
}

PrologQuery prolog(const char* op, const Tensor& token_x, const Weights& weights, const Tensor& rope_sin,
                   const Tensor& rope_cos, const Tensor& cache_index, const Tensor& kv_cache, const Tensor& kr_cache,
                   const Scales& scales, const Settings& settings) {
  check_dims(op, "token_x", token_x, 2, 3);
  check_dims(op, "weight_uk", weights.uk, 3, 3);
  TORCH_CHECK(settings.cache_mode == "PA_BSND" || settings.cache_mode == "PA_NZ", op, ": cache_mode is '",
              settings.cache_mode, "', allowed are 'PA_BSND' and 'PA_NZ'");
  const int64_t last = token_x.dim() - 2;
  const Tensor tokens = token_x.flatten(0, last), cos = rope_cos.flatten(0, last), sin = rope_sin.flatten(0, last);
  const at::ScalarType type = is_quantised(token_x) ? weights.uk.scalar_type() : token_x.scalar_type();
  const bool per_tensor = is_quantised(kv_cache) && scales.ckv && scales.ckv->sym_numel() == 1;
  PrologQuery out =
      make_prolog_query(op, tokens, weights, scales, cos, sin, settings, type, is_quantised(token_x) && per_tensor);
  fill_caches(op, tokens, weights, scales, cos, sin, cache_index, kv_cache, kr_cache, settings);
  if (last == 0) return out;
  const auto batched = [&](const Tensor& x) {
    return x.dim() == 3 ? x.unflatten_symint(0, {token_x.sym_size(0), token_x.sym_size(1)}) : x;
  };
  out.nope = batched(out.nope);
  out.rope = batched(out.rope);
  out.norm = out.norm.unflatten_symint(0, {token_x.sym_size(0), token_x.sym_size(1)});
  return out;
}

enum class Version { kFirst, kSecond };

// The second version also returns the scale of the query.
template <Version version>
auto mla_prolog(const Tensor& token_x, const Tensor& weight_dq, const Tensor& weight_uq_qr, const Tensor& weight_uk,
                const Tensor& weight_dkv_kr, const Tensor& gamma_cq, const Tensor& gamma_ckv, const Tensor& rope_sin,
                const Tensor& rope_cos, const Tensor& cache_index, const Tensor& kv_cache, const Tensor& kr_cache,
                const OptionalTensor& dequant_scale_x, const OptionalTensor& dequant_scale_w_dq,
                const OptionalTensor& dequant_scale_w_uq_qr, const OptionalTensor& dequant_scale_w_dkv_kr,
                const OptionalTensor& quant_scale_ckv, const OptionalTensor& quant_scale_ckr,
                const OptionalTensor& smooth_scales_cq, double epsilon_cq, double epsilon_ckv,
                c10::string_view cache_mode) {
  const char* op = version == Version::kFirst ? "npu_mla_prolog" : "npu_mla_prolog_v2";
  const PrologQuery out = prolog(op, token_x, {weight_dq, weight_uq_qr, weight_uk, weight_dkv_kr, gamma_cq, gamma_ckv},
                                 rope_sin, rope_cos, cache_index, kv_cache, kr_cache,
                                 {dequant_scale_x, dequant_scale_w_dq, dequant_scale_w_uq_qr, dequant_scale_w_dkv_kr,
                                  quant_scale_ckv, quant_scale_ckr, smooth_scales_cq},
                                 {.epsilon_cq = epsilon_cq, .epsilon_ckv = epsilon_ckv, .cache_mode = cache_mode});
  if constexpr (version == Version::kFirst)
    return std::tuple{out.nope, out.rope, kv_cache, kr_cache};
  else
    return std::tuple{out.nope, out.rope, kv_cache, kr_cache, out.nope_scale};
}

// Further arguments of npu_mla_prolog_v3.
struct Modes {
  const OptionalTensor &cache_index, &actual_seq_len, &k_nope_clip_alpha;
  int64_t weight_quant, kv_cache_quant, ckvkr_repo, quant_scale_repo;
};

void check_prolog_modes(const char* op, const Modes& modes) {
  TORCH_CHECK_NOT_IMPLEMENTED(modes.cache_index && modes.cache_index->defined(), op,
                              ": without cache_index is not supported on the host");
  for (const OptionalTensor* each : {&modes.actual_seq_len, &modes.k_nope_clip_alpha})
    TORCH_CHECK_NOT_IMPLEMENTED(!*each || !(*each)->defined(), op,
                                ": actual_seq_len and k_nope_clip_alpha are not supported on the host");
  TORCH_CHECK_NOT_IMPLEMENTED(modes.weight_quant >= 0 && modes.weight_quant <= 2, op, ": weight_quant_mode is ",
                              modes.weight_quant, ", supported on the host are 0 to 2 (int8)");
  TORCH_CHECK_NOT_IMPLEMENTED(modes.kv_cache_quant >= 0 && modes.kv_cache_quant <= 2, op, ": kv_cache_quant_mode is ",
                              modes.kv_cache_quant, ", supported on the host are 0 to 2 (not in tiles)");
  TORCH_CHECK_NOT_IMPLEMENTED(modes.ckvkr_repo == 0 && modes.quant_scale_repo == 0, op, ": ckvkr_repo_mode is ",
                              modes.ckvkr_repo, " and quant_scale_repo_mode ", modes.quant_scale_repo,
                              ", supported on the host is 0");
}

// query_norm and its scale are empty without query_norm_flag.
PrologQuery with_norm(PrologQuery query, bool query_norm_flag) {
  if (query_norm_flag) return query;
  query.norm = query.norm.new_empty({0});
  query.norm_scale = query.norm_scale.new_empty({0});
  return query;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> mla_prolog_v3(
    const Tensor& token_x, const Tensor& weight_dq, const Tensor& weight_uq_qr, const Tensor& weight_uk,
    const Tensor& weight_dkv_kr, const Tensor& gamma_cq, const Tensor& gamma_ckv, const Tensor& rope_sin,
    const Tensor& rope_cos, Tensor& kv_cache, Tensor& kr_cache, const OptionalTensor& cache_index,
    const OptionalTensor& dequant_scale_x, const OptionalTensor& dequant_scale_w_dq,
    const OptionalTensor& dequant_scale_w_uq_qr, const OptionalTensor& dequant_scale_w_dkv_kr,
    const OptionalTensor& quant_scale_ckv, const OptionalTensor& quant_scale_ckr,
    const OptionalTensor& smooth_scales_cq, const OptionalTensor& actual_seq_len,
    const OptionalTensor& k_nope_clip_alpha, double epsilon_cq, double epsilon_ckv, c10::string_view cache_mode,
    bool query_norm_flag, int64_t weight_quant_mode, int64_t kv_cache_quant_mode,
    int64_t /*query_quant_mode: the types say it*/, int64_t ckvkr_repo_mode, int64_t quant_scale_repo_mode,
    int64_t /*tile_size*/, double qc_qr_scale, double kc_scale, std::optional<int64_t> /*token_x_dtype*/,
    std::optional<int64_t> /*weight_dq_dtype*/, std::optional<int64_t> /*weight_uq_qr_dtype*/,
    std::optional<int64_t> /*weight_dkv_kr_dtype*/, std::optional<int64_t> /*kv_cache_dtype*/) {
  const char* op = "npu_mla_prolog_v3";
  check_prolog_modes(op, {cache_index, actual_seq_len, k_nope_clip_alpha, weight_quant_mode, kv_cache_quant_mode,
                          ckvkr_repo_mode, quant_scale_repo_mode});
  const PrologQuery all = prolog(op, token_x, {weight_dq, weight_uq_qr, weight_uk, weight_dkv_kr, gamma_cq, gamma_ckv},
                                 rope_sin, rope_cos, *cache_index, kv_cache, kr_cache,
                                 {dequant_scale_x, dequant_scale_w_dq, dequant_scale_w_uq_qr, dequant_scale_w_dkv_kr,
                                  quant_scale_ckv, quant_scale_ckr, smooth_scales_cq},
                                 {epsilon_cq, epsilon_ckv, cache_mode, qc_qr_scale, kc_scale});
  const PrologQuery out = with_norm(all, query_norm_flag);
  return {out.nope, out.rope, out.nope_scale, out.norm, out.norm_scale};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> mla_prolog_v3_functional(
    const Tensor& token_x, const Tensor& weight_dq, const Tensor& weight_uq_qr, const Tensor& weight_uk,
    const Tensor& weight_dkv_kr, const Tensor& gamma_cq, const Tensor& gamma_ckv, const Tensor& rope_sin,
    const Tensor& rope_cos, const Tensor& kv_cache, const Tensor& kr_cache, const OptionalTensor& cache_index,
    const OptionalTensor& dequant_scale_x, const OptionalTensor& dequant_scale_w_dq,
    const OptionalTensor& dequant_scale_w_uq_qr, const OptionalTensor& dequant_scale_w_dkv_kr,
    const OptionalTensor& quant_scale_ckv, const OptionalTensor& quant_scale_ckr,
    const OptionalTensor& smooth_scales_cq, const OptionalTensor& actual_seq_len,
    const OptionalTensor& k_nope_clip_alpha, double epsilon_cq, double epsilon_ckv, c10::string_view cache_mode,
    bool query_norm_flag, int64_t weight_quant_mode, int64_t kv_cache_quant_mode, int64_t query_quant_mode,
    int64_t ckvkr_repo_mode, int64_t quant_scale_repo_mode, int64_t tile_size, double qc_qr_scale, double kc_scale,
    std::optional<int64_t> token_x_dtype, std::optional<int64_t> weight_dq_dtype,
    std::optional<int64_t> weight_uq_qr_dtype, std::optional<int64_t> weight_dkv_kr_dtype,
    std::optional<int64_t> kv_cache_dtype) {
  Tensor latents = kv_cache.clone(), keys = kr_cache.clone();
  const auto [query, rope, nope_scale, norm, norm_scale] = mla_prolog_v3(
      token_x, weight_dq, weight_uq_qr, weight_uk, weight_dkv_kr, gamma_cq, gamma_ckv, rope_sin, rope_cos, latents,
      keys, cache_index, dequant_scale_x, dequant_scale_w_dq, dequant_scale_w_uq_qr, dequant_scale_w_dkv_kr,
      quant_scale_ckv, quant_scale_ckr, smooth_scales_cq, actual_seq_len, k_nope_clip_alpha, epsilon_cq, epsilon_ckv,
      cache_mode, query_norm_flag, weight_quant_mode, kv_cache_quant_mode, query_quant_mode, ckvkr_repo_mode,
      quant_scale_repo_mode, tile_size, qc_qr_scale, kc_scale, token_x_dtype, weight_dq_dtype, weight_uq_qr_dtype,
      weight_dkv_kr_dtype, kv_cache_dtype);
  return {query, rope, nope_scale, norm, norm_scale, latents, keys};
}

}  // namespace

void define_mla_prolog(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_mla_prolog(Tensor token_x, Tensor weight_dq, Tensor weight_uq_qr, Tensor weight_uk, Tensor "
                "weight_dkv_kr, Tensor rmsnorm_gamma_cq, Tensor rmsnorm_gamma_ckv, Tensor rope_sin, Tensor rope_cos, "
                "Tensor cache_index, Tensor kv_cache, Tensor kr_cache, *, Tensor? dequant_scale_x=None, Tensor? "
                "dequant_scale_w_dq=None, Tensor? dequant_scale_w_uq_qr=None, Tensor? dequant_scale_w_dkv_kr=None, "
                "Tensor? quant_scale_ckv=None, Tensor? quant_scale_ckr=None, Tensor? smooth_scales_cq=None, float "
                "rmsnorm_epsilon_cq=1e-05, float rmsnorm_epsilon_ckv=1e-05, str cache_mode=\"PA_BSND\") -> (Tensor, "
                "Tensor, Tensor, Tensor)",
      .kernel = composite(&mla_prolog<Version::kFirst>),
      .definition = "The projections before multi-head latent attention (DeepSeek-V2, 2024), with RMS normalisation, "
                    "rotary position embedding and the writing of paged caches in place. c is the first result of "
                    "npu_rms_norm(token_x @ weight_dq, rmsnorm_gamma_cq). In each head of c @ weight_uq_qr, the first "
                    "D elements times weight_uk of the head give query, and npu_interleave_rope of the others gives "
                    "query_rope. token_x @ weight_dkv_kr is the kv of npu_kv_rmsnorm_rope_cache, which writes it into "
                    "the slots cache_index, one per token, of kv_cache [pages, rows of a page, 1, L] and kr_cache "
                    "[pages, rows of a page, 1, R], whose cache_mode is PA_BSND or PA_NZ; negative slots are skipped. "
                    "token_x is [T, E] or [B, S, E], weight_dq is [E, Q], weight_uq_qr is [Q, N * (D + R)], weight_uk "
                    "is [N, D, L], weight_dkv_kr is [E, L + R], and rope_cos and rope_sin have R elements per token. "
                    "Products with int8 weights are multiplied by dequant_scale_x and the scale of the weight; before "
                    "weight_uq_qr in int8, c * smooth_scales_cq is quantised per token. Caches in int8 hold round(x * "
                    "quant_scale). query is quantised per token and head if token_x and kv_cache are in int8 and "
                    "quant_scale_ckv has one element. Results: query, [..., N, L], and query_rope, [..., N, R], both "
                    "in the type of token_x, or of weight_uk if token_x is in int8 (a quantised query is in int8); "
                    "kv_cache and kr_cache.",
  });
  library.add({
      .schema = "npu::npu_mla_prolog_v2(Tensor token_x, Tensor weight_dq, Tensor weight_uq_qr, Tensor weight_uk, "
                "Tensor weight_dkv_kr, Tensor rmsnorm_gamma_cq, Tensor rmsnorm_gamma_ckv, Tensor rope_sin, Tensor "
                "rope_cos, Tensor cache_index, Tensor kv_cache, Tensor kr_cache, *, Tensor? dequant_scale_x=None, "
                "Tensor? dequant_scale_w_dq=None, Tensor? dequant_scale_w_uq_qr=None, Tensor? "
                "dequant_scale_w_dkv_kr=None, Tensor? quant_scale_ckv=None, Tensor? quant_scale_ckr=None, Tensor? "
                "smooth_scales_cq=None, float rmsnorm_epsilon_cq=1e-05, float rmsnorm_epsilon_ckv=1e-05, str "
                "cache_mode=\"PA_BSND\") -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = composite(&mla_prolog<Version::kSecond>),
      .definition = "npu_mla_prolog with a fifth result, the scale of the quantised query in float32, [tokens, N, 1]. "
                    "It is an empty tensor unless query is quantised.",
  });
  library.add({
      .schema = "npu::npu_mla_prolog_v3(Tensor token_x, Tensor weight_dq, Tensor weight_uq_qr, Tensor weight_uk, "
                "Tensor weight_dkv_kr, Tensor rmsnorm_gamma_cq, Tensor rmsnorm_gamma_ckv, Tensor rope_sin, Tensor "
                "rope_cos, Tensor(a!) kv_cache, Tensor(b!) kr_cache, *, Tensor? cache_index=None, Tensor? "
                "dequant_scale_x=None, Tensor? dequant_scale_w_dq=None, Tensor? dequant_scale_w_uq_qr=None, Tensor? "
                "dequant_scale_w_dkv_kr=None, Tensor? quant_scale_ckv=None, Tensor? quant_scale_ckr=None, Tensor? "
                "smooth_scales_cq=None, Tensor? actual_seq_len=None, Tensor? k_nope_clip_alpha=None, float "
                "rmsnorm_epsilon_cq=1e-05, float rmsnorm_epsilon_ckv=1e-05, str cache_mode=\"PA_BSND\", bool "
                "query_norm_flag=False, int weight_quant_mode=0, int kv_cache_quant_mode=0, int query_quant_mode=0, "
                "int ckvkr_repo_mode=0, int quant_scale_repo_mode=0, int tile_size=128, float qc_qr_scale=1.0, float "
                "kc_scale=1.0, int? token_x_dtype=None, int? weight_dq_dtype=None, int? weight_uq_qr_dtype=None, int? "
                "weight_dkv_kr_dtype=None, int? kv_cache_dtype=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&mla_prolog_v3),
      .traits = {.writes_rows_of = {"kv_cache", "kr_cache"}, .on_host = {"actual_seq_len"}},
      .definition = "npu_mla_prolog in which c @ weight_uq_qr is multiplied by qc_qr_scale and the normalised latent "
                    "by kc_scale. kv_cache and kr_cache are written in place and not returned. Results: query; "
                    "query_rope; the scale of the quantised query as in npu_mla_prolog_v2; with query_norm_flag c, "
                    "[..., Q], and its scale per token, [tokens, 1], if it is quantised, otherwise empty tensors. "
                    "cache_index is required, actual_seq_len and k_nope_clip_alpha are not supported, "
                    "weight_quant_mode and kv_cache_quant_mode must be 0 to 2, and ckvkr_repo_mode and "
                    "quant_scale_repo_mode must be 0. The types of the tensors say what is quantised: "
                    "query_quant_mode, tile_size and the dtype arguments are ignored.",
  });
  library.add({
      .schema =
          "npu::npu_mla_prolog_v3_functional(Tensor token_x, Tensor weight_dq, Tensor weight_uq_qr, Tensor weight_uk, "
          "Tensor weight_dkv_kr, Tensor rmsnorm_gamma_cq, Tensor rmsnorm_gamma_ckv, Tensor rope_sin, Tensor rope_cos, "
          "Tensor kv_cache, Tensor kr_cache, *, Tensor? cache_index=None, Tensor? dequant_scale_x=None, Tensor? "
          "dequant_scale_w_dq=None, Tensor? dequant_scale_w_uq_qr=None, Tensor? dequant_scale_w_dkv_kr=None, Tensor? "
          "quant_scale_ckv=None, Tensor? quant_scale_ckr=None, Tensor? smooth_scales_cq=None, Tensor? "
          "actual_seq_len=None, Tensor? k_nope_clip_alpha=None, float rmsnorm_epsilon_cq=1e-05, float "
          "rmsnorm_epsilon_ckv=1e-05, str cache_mode=\"PA_BSND\", bool query_norm_flag=False, int weight_quant_mode=0, "
          "int kv_cache_quant_mode=0, int query_quant_mode=0, int ckvkr_repo_mode=0, int quant_scale_repo_mode=0, int "
          "tile_size=128, float qc_qr_scale=1.0, float kc_scale=1.0, int? token_x_dtype=None, int? "
          "weight_dq_dtype=None, int? weight_uq_qr_dtype=None, int? weight_dkv_kr_dtype=None, int? "
          "kv_cache_dtype=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = composite(&mla_prolog_v3_functional),
      .traits = {.on_host = {"actual_seq_len"}},
      .definition = "npu_mla_prolog_v3 that leaves kv_cache and kr_cache unchanged. Results: the five of "
                    "npu_mla_prolog_v3, then updated copies of kv_cache and of kr_cache.",
  });
}

}  // namespace npugraph::npu_ops
