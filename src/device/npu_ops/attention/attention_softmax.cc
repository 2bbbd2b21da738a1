// SPDX-License-Identifier: Apache-2.0
// Parts of attention that are operators of their own: softmax with the steps before and after it,
// and merging of results.
#include <tuple>

#include "device/npu_ops/attention/attention_core.h"
#include "device/npu_ops/attention/attention_dropout.h"
#include "device/npu_ops/attention/attention_layout.h"
#include "device/npu_ops/families.h"
#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

using c10::Scalar;

// The score of masked columns. Their weight is 0 after the softmax, unless all columns of a row are
// masked (Megatron-LM, 2019).
constexpr double kMaskedScore = -10000;

Tensor triangle(const Tensor& x) {
  const Tensor ones = at::ones_symint({x.sym_size(-2), x.sym_size(-1)}, x.options().dtype(at::kBool));
  return ones.triu(1);
}

Tensor scaled_masked_softmax(const Tensor& x, const Tensor& mask, const Scalar& scale, bool fixed_triu_mask) {
  check_floating("npu_scaled_masked_softmax", "x", x);
  check_dims("npu_scaled_masked_softmax", "x", x, 4, 4);
  const Tensor dropped = fixed_triu_mask ? triangle(x) : mask.to(at::kBool);
  return wide(x).mul(scale).masked_fill(dropped, kMaskedScore).softmax(-1).to(x.scalar_type());
}

Tensor scaled_masked_softmax_backward(const Tensor& y_grad, const Tensor& y, const Tensor& mask, const Scalar& scale,
                                      bool fixed_triu_mask) {
  check_same_shape("npu_scaled_masked_softmax_backward", "y_grad", y_grad, "y", y);
  const Tensor dropped = fixed_triu_mask ? triangle(y) : mask.to(at::kBool);
  return softmax_gradient(y_grad, y, -1).mul(scale).masked_fill(dropped, 0).to(y_grad.scalar_type());
}

Tensor masked_softmax_with_bias(const Tensor& x, const OptionalTensor& mask, const Tensor& bias, double scale,
                                int64_t) {
  const char* op = "npu_masked_softmax_with_rel_pos_bias";
  check_dims(op, "x", x, 4, 5);
  // [batches, windows, heads, rows, columns]
  const bool windows = mask && mask->defined();
  const c10::SymInt count = windows ? mask->sym_size(-3 - (mask->dim() > 3 ? 1 : 0)) : c10::SymInt(1);
  const Tensor by_windows = x.dim() == 5 ? x : x.unflatten_symint(0, {-1, count});
  Tensor scores = wide(by_windows) * scale;
  const auto matrix = [&](const Tensor& t, int64_t dim) {
    return wide(t)
        .reshape_symint({t.sym_numel() / (t.sym_size(-1) * t.sym_size(-2)), t.sym_size(-2), t.sym_size(-1)})
        .unsqueeze(dim);
  };
  if (windows) scores = scores + matrix(*mask, 1);
  scores = scores + matrix(bias, 0);
  return scores.softmax(-1).reshape_symint(x.sym_sizes()).to(x.scalar_type());
}

Tensor attn_softmax_(const Tensor& input) {
  input.copy_(wide(input).softmax(-1));
  return input;
}

Tensor attn_softmax_backward_(const Tensor& input, const Tensor& grad_output, const Tensor& values) {
  const Tensor of_weights = wide(grad_output).matmul(wide(values).transpose(-1, -2));
  input.copy_(softmax_gradient(of_weights, input, -1));
  return input;
}

// [batches, heads, rows, size] -> [batches * rows, heads * size]
Tensor as_rows(const Tensor& x) { return x.transpose(1, 2).flatten(2).flatten(0, 1).contiguous(); }

// Returns the result, the weights and the bits of the dropout mask.
std::tuple<Tensor, Tensor, Tensor> fused_attention_fwd(const Tensor& query, const Tensor& key, const Tensor& value,
                                                       const Tensor& mask, const Scalar& scale, double keep_prob,
                                                       bool query_transpose, bool key_transpose, bool, bool,
                                                       bool value_transpose, bool) {
  check_dims("npu_fused_attention_score", "query_layer", query, 4, 4);
  const Tensor q = wide(transposed_if(query, query_transpose)), k = wide(transposed_if(key, key_transpose));
  const Tensor weights = (q.matmul(k.transpose(-1, -2)) * scale + wide(mask)).softmax(-1);
  const Dropped kept = drop(weights, keep_prob);
  const Tensor out = kept.result.matmul(wide(transposed_if(value, value_transpose)));
  return {as_rows(out).to(query.scalar_type()), weights.to(query.scalar_type()), kept.bits};
}

Tensor fused_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                       const Scalar& scale, double keep_prob, bool query_transpose, bool key_transpose, bool a, bool b,
                       bool value_transpose, bool dx_transpose) {
  return std::get<0>(fused_attention_fwd(query, key, value, mask, scale, keep_prob, query_transpose, key_transpose, a,
                                         b, value_transpose, dx_transpose));
}

std::tuple<Tensor, Tensor, Tensor> fused_attention_grad(const Tensor& grad_output, const Tensor& softmax_output,
                                                        const Tensor& query, const Tensor& key, const Tensor& value,
                                                        const Tensor& mask, const Scalar& scale, double keep_prob,
                                                        bool query_transpose, bool key_transpose, bool value_transpose,
                                                        bool) {
  const Tensor q = wide(transposed_if(query, query_transpose)), k = wide(transposed_if(key, key_transpose));
  const Tensor v = wide(transposed_if(value, value_transpose));
  const Tensor given =
      wide(grad_output).reshape_symint({v.sym_size(0), q.sym_size(2), v.sym_size(1), v.sym_size(3)}).transpose(1, 2);
  const Tensor weights = wide(softmax_output);
  const Tensor of_weights = drop_again(given.matmul(v.transpose(-1, -2)), mask, keep_prob);
  const Tensor of_scores = softmax_gradient(of_weights, weights, -1).mul(scale);
  const auto typed = [&](const Tensor& x, bool transposes) {
    return transposed_if(x, transposes).contiguous().to(query.scalar_type());
  };
  return {typed(of_scores.matmul(k), query_transpose), typed(of_scores.transpose(-1, -2).matmul(q), key_transpose),
          typed(drop_again(weights, mask, keep_prob).transpose(-1, -2).matmul(given), value_transpose)};
}

std::tuple<Tensor, Tensor> attention_update(at::TensorList lse, at::TensorList local_out, int64_t update_type) {
  const char* op = "npu_attention_update";
  TORCH_CHECK(!lse.empty() && lse.size() == local_out.size(), op, ": lse has ", lse.size(), " tensors and local_out ",
              local_out.size(), ", allowed are as many, at least 1");
  TORCH_CHECK(update_type == 0 || update_type == 1, op, ": update_type is ", update_type, ", allowed are 0 and 1");
  std::vector<Tensor> lses;
  for (const Tensor& one : lse) lses.push_back(one.dim() < local_out[0].dim() ? one.unsqueeze(-1) : one);
  const Merged out = merge(local_out.vec(), lses);
  const Tensor result = out.result.to(local_out[0].scalar_type());
  if (update_type == 0) return {result, out.lse.new_empty({0})};
  return {result, out.lse.reshape_symint(lse[0].sym_sizes())};
}

// `statistics`, one number for each row of each head in several copies, shaped to broadcast with
// `like`, which is in `axes`.
Tensor factor(const Tensor& statistics, Axes axes, const Tensor& like) {
  const Tensor one = statistics.narrow(-1, 0, 1);
  if (is_packed(axes)) return one;  // [T, N, 1]
  const c10::SymInt size = like.sym_size(-1) / one.sym_size(1);
  return from_heads(one.expand_symint({-1, -1, -1, size}), axes);
}

std::tuple<Tensor, Tensor, Tensor> ring_attention_update(const Tensor& prev_out, const Tensor& prev_max,
                                                         const Tensor& prev_sum, const Tensor& cur_out,
                                                         const Tensor& cur_max, const Tensor& cur_sum,
                                                         const OptionalTensor&, c10::string_view layout,
                                                         c10::string_view) {
  const char* op = "npu_ring_attention_update";
  TORCH_CHECK(layout == "SBH" || layout == "TND", op, ": input_layout is \"", layout, "\", allowed are SBH and TND");
  check_same_shape(op, "cur_attn_out", cur_out, "prev_attn_out", prev_out);
  const Axes axes = layout_of(op, layout).in;
  const Tensor max = prev_max.maximum(cur_max), base = base_of(max);
  const Tensor before = prev_sum * (prev_max - base).exp(), now = cur_sum * (cur_max - base).exp();
  const Tensor sum = before + now, divisor = divisor_of(sum);
  const Tensor out =
      wide(prev_out) * factor(before / divisor, axes, prev_out) + wide(cur_out) * factor(now / divisor, axes, prev_out);
  return {out.to(prev_out.scalar_type()), max, sum};
}

// The arguments about streams of the device do not change the mask.
Tensor seeded_dropout_mask(const Tensor& self, c10::SymIntArrayRef size, double p, int64_t seed, int64_t offset,
                           std::optional<bool> /*parallel*/, std::optional<bool> /*sync*/) {
  const char* op = "_npu_dropout_gen_mask";
  TORCH_CHECK(p >= 0 && p <= 1, op, ": the share of elements to drop is ", p, ", allowed are 0 to 1");
  const c10::SymInt count = c10::multiply_integers(size);
  Dropout dropout(op, 1 - p);
  dropout.set_key(dropout_seed(seed, offset, self).key);
  const Tensor kept = dropout.kept(0, {count}, self);
  return as_bits(kept.defined() ? kept : at::ones_symint({count}, self.options().dtype(at::kBool)));
}

constexpr const char* kFused =
    "Attention with an additive mask and dropout, computed in float32: dropout(softmax(scale * query_layer @ "
    "key_layer^T + attention_mask)) @ value_layer. query_layer is [B, N, S, D], key_layer and value_layer are [B, N, "
    "S_kv, D], and attention_mask broadcasts to [B, N, S, S_kv]. query_transpose, key_transpose and value_transpose "
    "say that the last two dimensions of these arguments are exchanged; the other transposes are ignored. Dropout "
    "keeps a weight with probability keep_prob and divides it by keep_prob. The result is [B * S, N * D] in the type "
    "of query_layer.";
constexpr const char* kFusedGradient =
    "Gradients of npu_fused_attention_score for query_layer, key_layer and value_layer, in their shapes and in the "
    "type of query_layer. grad_output is the gradient of the attention [B * S, N * D]; softmax_output and mask are the "
    "softmax weights and the dropout bits of npu_fused_attention_score_fwd. The other arguments are those of the "
    "forward call; dx_transpose is ignored.";

}  // namespace

void define_attention_softmax(OperatorLibrary& library) {
  library.add({
      .schema =
          "npu::npu_scaled_masked_softmax(Tensor x, Tensor mask, Scalar scale=1, bool fixed_triu_mask=False) -> Tensor",
      .kernel = parts(&scaled_masked_softmax),
      .definition = "Softmax over the last dimension of scale * x, where masked scores are set to -10000 first "
                    "(Megatron-LM, Shoeybi et al., 2019). x is [B, N, S, S_kv] in a floating type. mask broadcasts to "
                    "the shape of x, and a true element masks a score. With fixed_triu_mask, mask is ignored and the "
                    "scores above the diagonal are masked. The result has the shape and type of x and is computed in "
                    "float32.",
  });
  library.add({
      .schema = "npu::npu_scaled_masked_softmax_backward(Tensor y_grad, Tensor y, Tensor mask, Scalar scale, bool "
                "fixed_triu_mask) -> Tensor",
      .kernel = parts(&scaled_masked_softmax_backward),
      .definition = "Gradient of npu_scaled_masked_softmax for x, from its result y and the gradient y_grad of y: "
                    "scale * y * (y_grad - sum(y_grad * y, -1)), with 0 for masked elements. mask, scale and "
                    "fixed_triu_mask are those of the forward call. The result has the shape and type of y_grad.",
  });
  library.add({
      .schema = "npu::npu_masked_softmax_with_rel_pos_bias(Tensor x, Tensor? atten_mask, Tensor relative_pos_bias, "
                "float scale_value=1.0, int inner_precision_mode=0) -> Tensor",
      .kernel = parts(&masked_softmax_with_bias),
      .definition = "Softmax of window attention (Swin, Liu et al., 2021): softmax(scale_value * x + atten_mask + "
                    "relative_pos_bias, -1). x is [B, W, N, S1, S2] or [B * W, N, S1, S2] for W windows and N heads, "
                    "atten_mask [W, S1, S2], relative_pos_bias [N, S1, S2]; the last two may have further dimensions "
                    "of size 1. The result has the shape and type of x and is computed in float32. "
                    "inner_precision_mode is ignored.",
  });
  library.add({
      .schema = "npu::npu_attn_softmax_(Tensor(a!) input) -> Tensor(a!)",
      .kernel = composite(&attn_softmax_),
      .definition = "Softmax over the last dimension of input, in place and computed in float32.",
  });
  library.add({
      .schema = "npu::npu_attn_softmax_backward_(Tensor(a!) input, Tensor grad_output, Tensor values) -> Tensor(a!)",
      .kernel = parts(&attn_softmax_backward_),
      .definition = "Gradient of softmax(scores) @ values for the scores, in place of the softmax result input: with g "
                    "= grad_output @ values^T, input becomes input * (g - sum(g * input, -1)), computed in float32.",
  });
  library.add({
      .schema = "npu::_npu_dropout_gen_mask(Tensor self, SymInt[] size, float p, int seed, int offset, bool? "
                "parallel=True, bool? sync=False) -> Tensor",
      .kernel = parts(&seeded_dropout_mask),
      .definition = "Dropout mask of an npu_fusion_attention call with this seed and offset: one bit for each of the "
                    "attention weights, whose shape is size, with 1 for a weight that is kept. Each weight is dropped "
                    "with probability p. The result is uint8, with the first weight in the lowest bit, padded to a "
                    "multiple of 128 bits. self gives the device; parallel and sync are ignored.",
  });
  library.add({
      .schema = "npu::npu_fused_attention_score(Tensor query_layer, Tensor key_layer, Tensor value_layer, Tensor "
                "attention_mask, Scalar scale, float keep_prob, bool query_transpose=False, bool key_transpose=False, "
                "bool bmm_score_transpose_a=False, bool bmm_score_transpose_b=False, bool value_transpose=False, bool "
                "dx_transpose=False) -> Tensor",
      .kernel = parts(&fused_attention),
      .definition = kFused,
  });
  library.add({
      .schema = "npu::npu_fused_attention_score_fwd(Tensor query_layer, Tensor key_layer, Tensor value_layer, Tensor "
                "attention_mask, Scalar scale, float keep_prob, bool query_transpose=False, bool key_transpose=False, "
                "bool bmm_score_transpose_a=False, bool bmm_score_transpose_b=False, bool value_transpose=False, bool "
                "dx_transpose=False) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&fused_attention_fwd),
      .definition = "npu_fused_attention_score that also returns what its gradient needs. Results: the attention, the "
                    "softmax weights before dropout [B, N, S, S_kv] in the type of query_layer, and the dropout mask "
                    "in bits (uint8, 1 for a weight that is kept, the first in the lowest bit).",
  });
  library.add({
      .schema =
          "npu::npu_fused_attention_score_grad(Tensor grad_output, Tensor softmax_output, Tensor query_layer, Tensor "
          "key_layer, Tensor value_layer, Tensor mask, Scalar scale, float keep_prob, bool query_transpose=False, bool "
          "key_transpose=False, bool value_transpose=False, bool dx_transpose=False) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&fused_attention_grad),
      .definition = kFusedGradient,
  });
  library.add({
      .schema = "npu::npu_fused_attention_score_backward(Tensor grad_output, Tensor softmax_output, Tensor "
                "query_layer, Tensor key_layer, Tensor value_layer, Tensor mask, Scalar scale, float keep_prob, bool "
                "query_transpose=False, bool key_transpose=False, bool value_transpose=False, bool dx_transpose=False) "
                "-> (Tensor, Tensor, Tensor)",
      .kernel = parts(&fused_attention_grad),
      .definition = kFusedGradient,
  });
  library.add({
      .schema = "npu::npu_attention_update(Tensor[] lse, Tensor[] local_out, int update_type) -> (Tensor, Tensor)",
      .kernel = parts(&attention_update),
      .definition = "Merges attention results for disjoint sets of keys, each with the logsumexp of its scores: "
                    "lse_all = log(sum_i exp(lse[i])) and out = sum_i exp(lse[i] - lse_all) * local_out[i]. local_out "
                    "holds tensors [.., D] and lse as many tensors [..] or [.., 1]. Results: out in the type of "
                    "local_out, and lse_all in float32 and the shape of lse[0] with update_type 1, or a tensor of "
                    "size [0] with update_type 0.",
  });
  library.add({
      .schema =
          "npu::npu_ring_attention_update(Tensor prev_attn_out, Tensor prev_softmax_max, Tensor prev_softmax_sum, "
          "Tensor cur_attn_out, Tensor cur_softmax_max, Tensor cur_softmax_sum, *, Tensor? actual_seq_qlen=None, str "
          "input_layout=\"SBH\", str input_softmax_layout=\"\") -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&ring_attention_update),
      .traits = {.on_host = {"actual_seq_qlen"}},
      .definition = "Merges two attention results for disjoint sets of keys by their softmax statistics (Ring "
                    "Attention, Liu et al., 2023). With max = maximum(prev_softmax_max, cur_softmax_max), a = "
                    "prev_softmax_sum * exp(prev_softmax_max - max) and b = cur_softmax_sum * exp(cur_softmax_max - "
                    "max): sum = a + b, out = (prev_attn_out * a + cur_attn_out * b) / sum, computed in float32. Where "
                    "both sums are 0, out and sum are 0 and max is -inf. The attention is [S, B, H] with H = N * D and "
                    "the statistics [B, N, S, 8] (input_layout SBH), or [T, N, D] with [T, N, 8] (TND); the 8 are "
                    "equal copies. Results: out, max and sum, in the shapes and types of prev_attn_out and of the "
                    "statistics. actual_seq_qlen and input_softmax_layout are ignored.",
  });
}

}  // namespace npugraph::npu_ops
