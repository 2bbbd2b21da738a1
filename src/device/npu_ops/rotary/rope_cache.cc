// SPDX-License-Identifier: Apache-2.0
// Normalisation and rotary embedding of keys, and writing them into caches, in one operator. Computed in float32.
#include "device/npu_ops/rotary/rope_cache.h"

#include <tuple>
#include <vector>

#include "device/npu_ops/families.h"
#include "device/npu_ops/norms/norms.h"
#include "device/npu_ops/parts/rows.h"
#include "device/npu_ops/quantisation/quantisation.h"
#include "device/npu_ops/rotary/rotations.h"

namespace npugraph::npu_ops {
namespace {

// Number of elements in a piece of a row, which has 32 bytes.
c10::SymInt piece_of(const Tensor& cache) { return 32 / static_cast<int64_t>(cache.element_size()); }

bool has_pieces(c10::string_view mode) { return mode.size() > 2 && mode.substr(mode.size() - 2) == "NZ"; }

// The pages of a cache (pages, places, heads, dim), whose memory is (pages, pieces, places, length of a
// piece) if `mode` ends in NZ.
Tensor pages_of(const Tensor& cache, c10::string_view mode) {
  if (!has_pieces(mode)) return cache;
  const c10::SymInt row = cache.sym_size(2) * cache.sym_size(3);
  return pages_of_pieces(
      cache.view_symint({cache.sym_size(0), row / piece_of(cache), cache.sym_size(1), piece_of(cache)}));
}

// The slots of tokens (batch, length), given the slot of the first token in each page of a sequence.
Tensor slots_of_pages(const Tensor& first, const c10::SymInt& batch, const c10::SymInt& length,
                      const c10::SymInt& places) {
  const Tensor token = at::arange(length, first.options());
  const Tensor pages = first.reshape_symint({batch, -1}).index_select(1, token.div(places, "floor"));
  return at::where(pages >= 0, pages + token.remainder(places), -1).flatten();
}

}  // namespace

void put_in_cache(const char* op, const Tensor& cache, const Tensor& tokens, const Tensor& index,
                  c10::string_view mode) {
  check_dims(op, "cache", cache, 4, 4);
  const Tensor rows = tokens.flatten(0, 1);
  if (mode == "Norm") {
    const Tensor batch = at::arange(tokens.sym_size(0), index.options()).unsqueeze(1);
    const Tensor of_row = batch.expand_symint({tokens.sym_size(0), tokens.sym_size(1)}).flatten();
    return put_rows(cache.transpose(1, 2), {of_row, index.flatten()}, rows);
  }
  const Tensor pages = pages_of(cache, mode);
  if (mode == "PA_BLK_BNSD" || mode == "PA_BLK_BSND" || mode == "PA_BLK_NZ")
    return put_in_pages(pages, rows, slots_of_pages(index, tokens.sym_size(0), tokens.sym_size(1), pages.sym_size(1)));
  TORCH_CHECK(
      mode == "PA" || mode == "PA_BNSD" || mode == "PA_BSND" || mode == "PA_NZ", op, ": cache_mode is '", mode,
      "', allowed are 'Norm', 'PA', 'PA_BNSD', 'PA_BSND', 'PA_NZ', 'PA_BLK_BNSD', 'PA_BLK_BSND' and 'PA_BLK_NZ'");
  put_in_pages(pages, rows, index.flatten());
}

Tensor for_cache(const char* op, const Tensor& exact, const Tensor& cache, const OptionalTensor& scale,
                 const OptionalTensor& offset, bool divide) {
  if (cache.scalar_type() != at::kChar || !scale || !scale->defined()) return exact.to(cache.scalar_type());
  return statically_quantised(op, exact, *scale, wide(offset), divide, QuantType{});
}

namespace {

struct KeyValue {
  Tensor key, latent;  // (batch, heads, length, dim), in the type of kv
};

KeyValue kv_rmsnorm_rope(const char* op, const Tensor& kv, const Tensor& gamma, const Tensor& cos, const Tensor& sin,
                         const Tensor& index, const Tensor& k_cache, const Tensor& ckv_cache,
                         const OptionalTensor& k_rope_scale, const OptionalTensor& c_kv_scale,
                         const OptionalTensor& k_rope_offset, const OptionalTensor& c_kv_offset,
                         const OptionalTensor& v, double epsilon, c10::string_view cache_mode) {
  check_floating(op, "kv", kv);
  check_dims(op, "kv", kv, 4, 4);
  check_dims(op, "gamma", gamma, 1, 1);
  TORCH_CHECK_NOT_IMPLEMENTED(!v || !v->defined(), op, ": v is not supported on the host");
  const c10::SymInt size = gamma.sym_size(0);
  const Tensor latent = rms_normed(op, kv.narrow_symint(-1, 0, size), gamma, epsilon).wide;
  const Tensor turning = evens_first(kv.narrow_symint(-1, size, kv.sym_size(-1) - size));
  const Tensor key = rotated(turning, cos, sin, Rotation::kHalf);
  const auto put = [&](const Tensor& exact, const Tensor& cache, const OptionalTensor& scale,
                       const OptionalTensor& offset) {
    put_in_cache(op, cache, for_cache(op, exact, cache, scale, offset, /*divide=*/false).transpose(1, 2), index,
                 cache_mode);
  };
  put(key, k_cache, k_rope_scale, k_rope_offset);
  put(latent, ckv_cache, c_kv_scale, c_kv_offset);
  return {key.to(kv.scalar_type()), latent.to(kv.scalar_type())};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> kv_rmsnorm_rope_cache(
    const Tensor& kv, const Tensor& gamma, const Tensor& cos, const Tensor& sin, const Tensor& index,
    const Tensor& k_cache, const Tensor& ckv_cache, const OptionalTensor& k_rope_scale,
    const OptionalTensor& c_kv_scale, const OptionalTensor& k_rope_offset, const OptionalTensor& c_kv_offset,
    const OptionalTensor& v, double epsilon, c10::string_view cache_mode, bool /*is_output_kv: always*/) {
  const KeyValue out = kv_rmsnorm_rope("npu_kv_rmsnorm_rope_cache", kv, gamma, cos, sin, index, k_cache, ckv_cache,
                                       k_rope_scale, c_kv_scale, k_rope_offset, c_kv_offset, v, epsilon, cache_mode);
  return {k_cache, ckv_cache, out.key, out.latent};
}

std::tuple<Tensor, Tensor> kv_rmsnorm_rope_cache_v2(
    const Tensor& kv, const Tensor& gamma, const Tensor& cos, const Tensor& sin, const Tensor& index, Tensor& k_cache,
    Tensor& ckv_cache, const OptionalTensor& k_rope_scale, const OptionalTensor& c_kv_scale,
    const OptionalTensor& k_rope_offset, const OptionalTensor& c_kv_offset, const OptionalTensor& v, double epsilon,
    c10::string_view cache_mode, bool /*is_output_kv: always*/, std::optional<int64_t> /*k_cache_dtype: its own*/,
    std::optional<int64_t> /*ckv_cache_dtype: its own*/) {
  const KeyValue out = kv_rmsnorm_rope("npu_kv_rmsnorm_rope_cache_v2", kv, gamma, cos, sin, index, k_cache, ckv_cache,
                                       k_rope_scale, c_kv_scale, k_rope_offset, c_kv_offset, v, epsilon, cache_mode);
  return {out.key, out.latent};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> kv_rmsnorm_rope_cache_v2_functional(
    const Tensor& kv, const Tensor& gamma, const Tensor& cos, const Tensor& sin, const Tensor& index,
    const Tensor& k_cache, const Tensor& ckv_cache, const OptionalTensor& k_rope_scale,
    const OptionalTensor& c_kv_scale, const OptionalTensor& k_rope_offset, const OptionalTensor& c_kv_offset,
    const OptionalTensor& v, double epsilon, c10::string_view cache_mode, bool /*is_output_kv: always*/,
    std::optional<int64_t> /*k_cache_dtype: its own*/, std::optional<int64_t> /*ckv_cache_dtype: its own*/) {
  const Tensor keys = k_cache.clone(), latents = ckv_cache.clone();
  const KeyValue out =
      kv_rmsnorm_rope("npu_kv_rmsnorm_rope_cache_v2_functional", kv, gamma, cos, sin, index, keys, latents,
                      k_rope_scale, c_kv_scale, k_rope_offset, c_kv_offset, v, epsilon, cache_mode);
  return {out.key, out.latent, keys, latents};
}

struct Qkv {
  Tensor query, key, value;  // (tokens, heads, dim)
};

Qkv qkv_rms_norm_rope(const char* op, const Tensor& qkv, const Tensor& q_gamma, const Tensor& k_gamma,
                      const Tensor& cos, const Tensor& sin, at::IntArrayRef head_nums, double epsilon) {
  check_floating(op, "qkv", qkv);
  check_dims(op, "qkv", qkv, 2, 2);
  check_dims(op, "cos", cos, 2, 2);
  const int64_t heads = head_nums[0] + head_nums[1] + head_nums[2];
  TORCH_CHECK(heads > 0 && qkv.sym_size(1) % heads == 0, op, ": qkv has ", qkv.sym_size(1),
              " columns, which are not those of head_nums ", head_nums);
  const auto parts = qkv.unflatten(1, {heads, -1}).split_with_sizes(head_nums, 1);
  const auto turned = [&](const Tensor& x, const Tensor& gamma) {
    return rotated(rms_normed(op, x, gamma, epsilon).wide, cos.unsqueeze(1), sin.unsqueeze(1), Rotation::kHalf);
  };
  return {turned(parts[0], q_gamma), turned(parts[1], k_gamma), wide(parts[2])};
}

// Writes keys or values into a cache. Its pages are (places, heads, dim) or, in mode PA_NZ, (heads
// * dim / n, places, n).
void put_key_value(const char* op, const Tensor& exact, const Tensor& cache, const Tensor& index,
                   const OptionalTensor& scale, const OptionalTensor& offset, c10::string_view mode) {
  TORCH_CHECK(mode == "PA_NZ" || mode == "PA_BSND", op, ": cache_mode is '", mode,
              "', allowed are 'PA_NZ' and 'PA_BSND'");
  check_dims(op, "cache", cache, 4, 4);
  const Tensor values = for_cache(op, exact, cache, scale, offset, /*divide=*/true);
  put_in_pages(mode == "PA_NZ" ? pages_of_pieces(cache) : cache, values, index.flatten());
}

// Shared by the three operators: writes `q_out` and the caches, and returns query, key and value in the type of qkv.
Qkv qkv_into_caches(const char* op, const Tensor& qkv, const Tensor& q_gamma, const Tensor& k_gamma, const Tensor& cos,
                    const Tensor& sin, const Tensor& index, const Tensor& q_out, const Tensor& k_cache,
                    const Tensor& v_cache, at::IntArrayRef head_nums, const OptionalTensor& k_scale,
                    const OptionalTensor& v_scale, const OptionalTensor& k_offset, const OptionalTensor& v_offset,
                    double epsilon, c10::string_view mode) {
  const Qkv out = qkv_rms_norm_rope(op, qkv, q_gamma, k_gamma, cos, sin, head_nums, epsilon);
  q_out.copy_(out.query.flatten(1).view_as(q_out));
  put_key_value(op, out.key, k_cache, index, k_scale, k_offset, mode);
  put_key_value(op, out.value, v_cache, index, v_scale, v_offset, mode);
  // Copies: value is a view of qkv, and results share no memory with it.
  const auto flat = [&](const Tensor& part) {
    return part.flatten(1).to(qkv.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
  };
  return {flat(out.query), flat(out.key), flat(out.value)};
}

std::tuple<Tensor, Tensor, Tensor> qkv_rms_norm_rope_cache(
    const Tensor& qkv, const Tensor& q_gamma, const Tensor& k_gamma, const Tensor& cos, const Tensor& sin,
    const Tensor& index, Tensor& q_out, Tensor& k_cache, Tensor& v_cache, at::IntArrayRef /*qkv_size: that of qkv*/,
    at::IntArrayRef head_nums, const OptionalTensor& k_scale, const OptionalTensor& v_scale,
    const OptionalTensor& k_offset, const OptionalTensor& v_offset, double epsilon, c10::string_view cache_mode,
    bool /*is_output_qkv: always*/) {
  const Qkv out = qkv_into_caches("npu_qkv_rms_norm_rope_cache", qkv, q_gamma, k_gamma, cos, sin, index, q_out, k_cache,
                                  v_cache, head_nums, k_scale, v_scale, k_offset, v_offset, epsilon, cache_mode);
  return {out.query, out.key, out.value};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> qkv_rms_norm_rope_cache_functional(
    const Tensor& qkv, const Tensor& q_gamma, const Tensor& k_gamma, const Tensor& cos, const Tensor& sin,
    const Tensor& index, const Tensor& q_out, const Tensor& k_cache, const Tensor& v_cache,
    at::IntArrayRef /*qkv_size: that of qkv*/, at::IntArrayRef head_nums, const OptionalTensor& k_scale,
    const OptionalTensor& v_scale, const OptionalTensor& k_offset, const OptionalTensor& v_offset, double epsilon,
    c10::string_view cache_mode, bool /*is_output_qkv: always*/) {
  const Tensor query = q_out.clone(), keys = k_cache.clone(), values = v_cache.clone();
  const Qkv out =
      qkv_into_caches("npu_qkv_rms_norm_rope_cache_functional", qkv, q_gamma, k_gamma, cos, sin, index, query, keys,
                      values, head_nums, k_scale, v_scale, k_offset, v_offset, epsilon, cache_mode);
  return {out.query, out.key, out.value, query, keys, values};
}

}  // namespace

void define_rope_cache(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_kv_rmsnorm_rope_cache(Tensor kv, Tensor gamma, Tensor cos, Tensor sin, Tensor index, Tensor "
                "k_cache, Tensor ckv_cache, *, Tensor? k_rope_scale=None, Tensor? c_kv_scale=None, Tensor? "
                "k_rope_offset=None, Tensor? c_kv_offset=None, Tensor? v=None, float epsilon=1e-5, str "
                "cache_mode='Norm', bool is_output_kv=False) -> (Tensor, Tensor, Tensor, Tensor)",
      .kernel = composite(&kv_rmsnorm_rope_cache),
      .definition = "RMS normalisation of the latent and rotary position embedding of the key of multi-head latent "
                    "attention (DeepSeek-V2, 2024), written into caches in place. kv is [B, N, S, L + R], where L is "
                    "the size of gamma: c_kv = npu_rms_norm(kv[..., :L], gamma) goes into ckv_cache, and k_rope = "
                    "npu_interleave_rope(kv[..., L:], cos, sin) into k_cache. With cache_mode Norm, caches are [B, N, "
                    "places, L or R] and index has the place of each token, [B, S]. With PA, PA_BNSD, PA_BSND and "
                    "PA_NZ, caches are paged, [pages, rows of a page, N, L or R], and index has the slot of each "
                    "token; with PA_BLK_BNSD, PA_BLK_BSND and PA_BLK_NZ it has the slot of the first token of each "
                    "page of a sequence. The memory of a page is in the layout NZ in the modes that end in NZ. Tokens "
                    "with a negative index are skipped. Caches in int8 hold round(x * scale + offset). is_output_kv "
                    "is ignored, and v is not supported. Results: k_cache, ckv_cache, and k_rope and c_kv in the type "
                    "of kv.",
  });
  library.add({
      .schema =
          "npu::npu_kv_rmsnorm_rope_cache_v2(Tensor kv, Tensor gamma, Tensor cos, Tensor sin, Tensor index, Tensor(a!) "
          "k_cache, Tensor(b!) ckv_cache, *, Tensor? k_rope_scale=None, Tensor? c_kv_scale=None, Tensor? "
          "k_rope_offset=None, Tensor? c_kv_offset=None, Tensor? v=None, float epsilon=1e-5, str cache_mode='Norm', "
          "bool is_output_kv=False, int? k_cache_dtype=None, int? ckv_cache_dtype=None) -> (Tensor, Tensor)",
      .kernel = parts(&kv_rmsnorm_rope_cache_v2),
      .traits = {.writes_rows_of = {"k_cache", "ckv_cache"}},
      .definition = "npu_kv_rmsnorm_rope_cache that returns only k_rope and c_kv. The caches keep their types; "
                    "k_cache_dtype and ckv_cache_dtype are ignored.",
  });
  library.add({
      .schema = "npu::npu_kv_rmsnorm_rope_cache_v2_functional(Tensor kv, Tensor gamma, Tensor cos, Tensor sin, Tensor "
                "index, Tensor k_cache, Tensor ckv_cache, *, Tensor? k_rope_scale=None, Tensor? c_kv_scale=None, "
                "Tensor? k_rope_offset=None, Tensor? c_kv_offset=None, Tensor? v=None, float epsilon=1e-5, str "
                "cache_mode='Norm', bool is_output_kv=False, int? k_cache_dtype=None, int? ckv_cache_dtype=None) -> "
                "(Tensor, Tensor, Tensor, Tensor)",
      .kernel = composite(&kv_rmsnorm_rope_cache_v2_functional),
      .definition = "npu_kv_rmsnorm_rope_cache_v2 that leaves k_cache and ckv_cache unchanged. Results: k_rope, c_kv, "
                    "and updated copies of k_cache and ckv_cache.",
  });
  library.add({
      .schema =
          "npu::npu_qkv_rms_norm_rope_cache(Tensor qkv, Tensor q_gamma, Tensor k_gamma, Tensor cos, Tensor sin, Tensor "
          "index, Tensor(a!) q_out, Tensor(b!) k_cache, Tensor(c!) v_cache, int[4] qkv_size, int[3] head_nums, *, "
          "Tensor? k_scale=None, Tensor? v_scale=None, Tensor? k_offset=None, Tensor? v_offset=None, float "
          "epsilon=1e-6, str cache_mode='PA_NZ', bool is_output_qkv=False) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&qkv_rms_norm_rope_cache),
      .traits = {.writes_rows_of = {"k_cache", "v_cache"}},
      .definition = "RMS normalisation and rotary position embedding of the heads of query and key, and writing of "
                    "key and value into paged caches in place. qkv is [T, (Nq + Nk + Nv) * D] with head_nums = [Nq, "
                    "Nk, Nv]. Each head of query and key passes through npu_rms_norm with q_gamma or k_gamma, [D], "
                    "and then through npu_rotary_mul of the mode half with cos and sin, [T, D]. The query is written "
                    "into q_out, and key and value into the slots index of k_cache and v_cache, where negative slots "
                    "are skipped. Pages of the caches are [heads * D / n, rows, n] with cache_mode PA_NZ and [rows, "
                    "heads, D] with PA_BSND. Caches in int8 hold round(x / scale + offset). qkv_size and "
                    "is_output_qkv are ignored. Results: query, key and value before they are quantised, [T, heads * "
                    "D] in the type of qkv.",
  });
  library.add({
      .schema = "npu::npu_qkv_rms_norm_rope_cache_functional(Tensor qkv, Tensor q_gamma, Tensor k_gamma, Tensor cos, "
                "Tensor sin, Tensor index, Tensor q_out, Tensor k_cache, Tensor v_cache, int[4] qkv_size, int[3] "
                "head_nums, *, Tensor? k_scale=None, Tensor? v_scale=None, Tensor? k_offset=None, Tensor? "
                "v_offset=None, float epsilon=1e-6, str cache_mode='PA_NZ', bool is_output_qkv=False) -> (Tensor, "
                "Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = composite(&qkv_rms_norm_rope_cache_functional),
      .definition = "npu_qkv_rms_norm_rope_cache that leaves q_out, k_cache and v_cache unchanged. Results: query, "
                    "key, value, and updated copies of q_out, k_cache and v_cache.",
  });
}

}  // namespace npugraph::npu_ops
