// SPDX-License-Identifier: Apache-2.0
// Attention with the linear layers before and after it, and with the normalisation before these. In float32.
#include <cmath>
#include <tuple>
#include <vector>

#include "device/npu_ops/attention/attention_core.h"
#include "device/npu_ops/attention/attention_dropout.h"
#include "device/npu_ops/families.h"

namespace npugraph::npu_ops {
namespace {

// A linear layer, with weight and bias as in torch.nn.Linear.
Tensor through_linear(const Tensor& rows, const Tensor& weight, const OptionalTensor& bias) {
  const Tensor out = wide(rows).matmul(wide(weight).t());
  return given(bias) ? out + wide(*bias) : out;
}

// [batches * length, heads * size] -> [batches, heads, length, size], and back.
Tensor in_heads(const Tensor& rows, const c10::SymInt& length, const c10::SymInt& heads) {
  return rows.unflatten_symint(0, {rows.sym_size(0) / length, length})
      .unflatten_symint(2, {heads, rows.sym_size(1) / heads})
      .transpose(1, 2);
}
Tensor in_rows(const Tensor& heads) { return heads.transpose(1, 2).flatten(2).flatten(0, 1); }

struct HeadSizes {
  int64_t heads, size, source, target;
  double scale() const { return 1 / std::sqrt(static_cast<double>(size)); }
};

void check_rows(const char* op, const char* name, const Tensor& rows, int64_t length) {
  check_floating(op, name, rows);
  check_dims(op, name, rows, 2, 2);
  TORCH_CHECK(length > 0 && rows.sym_size(0) % length == 0, op, ": ", name, " has ", rows.sym_size(0),
              " rows, which are no batches of ", length);
}

void check_weight(const char* op, const char* name, const Tensor& weight, const HeadSizes& sizes) {
  check_dims(op, name, weight, 2, 2);
  TORCH_CHECK(weight.sym_size(0) == sizes.heads * sizes.size, op, ": ", name, " has ", weight.sym_size(0),
              " rows, and not those of ", sizes.heads, " heads of size ", sizes.size);
}

double keep_prob_of(const char* op, double dropout_prob) {
  TORCH_CHECK(dropout_prob >= 0 && dropout_prob <= 1, op, ": dropout_prob is ", dropout_prob, ", allowed are 0 to 1");
  return 1 - dropout_prob;
}

Eight multi_head_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& query_weight,
                           const Tensor& key_weight, const Tensor& value_weight, const Tensor& attn_mask,
                           const Tensor& out_proj_weight, const OptionalTensor& query_bias,
                           const OptionalTensor& key_bias, const OptionalTensor& value_bias,
                           const OptionalTensor& out_proj_bias, const OptionalTensor& dropout_mask,
                           int64_t attn_head_num, int64_t attn_dim_per_head, int64_t src_len, int64_t tgt_len,
                           double dropout_prob, bool softmax_use_float) {
  const char* op = "npu_multi_head_attention";
  const HeadSizes sizes{attn_head_num, attn_dim_per_head, src_len, tgt_len};
  check_rows(op, "query", query, tgt_len);
  check_rows(op, "key", key, src_len);
  check_rows(op, "value", value, src_len);
  check_weight(op, "query_weight", query_weight, sizes);
  check_weight(op, "key_weight", key_weight, sizes);
  check_weight(op, "value_weight", value_weight, sizes);
  const double keep_prob = keep_prob_of(op, dropout_prob);
  const Tensor q = in_heads(through_linear(query, query_weight, query_bias), tgt_len, attn_head_num);
  const Tensor k = in_heads(through_linear(key, key_weight, key_bias), src_len, attn_head_num);
  const Tensor v = in_heads(through_linear(value, value_weight, value_bias), src_len, attn_head_num);
  const Tensor weights = (q.matmul(k.transpose(-1, -2)) * sizes.scale() + wide(attn_mask)).softmax(-1);
  const Dropped kept = given(dropout_mask)
                           ? Dropped{drop_again(weights, *dropout_mask, keep_prob), dropout_mask->clone()}
                           : drop(weights, keep_prob);
  const Tensor context = in_rows(kept.result.matmul(v));
  const auto typed = [&](const Tensor& x) { return x.contiguous().to(query.scalar_type(), false, /*copy=*/true); };
  return {typed(through_linear(context, out_proj_weight, out_proj_bias)),
          kept.bits,
          typed(q),
          typed(k),
          typed(v),
          softmax_use_float ? weights : typed(weights),
          typed(kept.result),
          typed(context)};
}

// Gradients of rows @ weight^T + bias, given that of the result.
struct LinearGradients {
  Tensor rows, weight, bias;
};

LinearGradients linear_gradients(const Tensor& gradient, const Tensor& rows, const Tensor& weight,
                                 const OptionalTensor& bias) {
  return {gradient.matmul(wide(weight)).to(rows.scalar_type()),
          gradient.t().matmul(wide(rows)).to(weight.scalar_type()),
          given(bias) ? gradient.sum(0, /*keepdim=*/true).to(bias->scalar_type()) : rows.new_empty({0})};
}

using Eleven = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

Eleven multi_head_attention_backward(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const Tensor& query_weight, const Tensor& key_weight, const Tensor& value_weight,
                                     const Tensor& out_proj_weight, const OptionalTensor& query_bias,
                                     const OptionalTensor& key_bias, const OptionalTensor& value_bias,
                                     const OptionalTensor& out_proj_bias, const Tensor& query_res,
                                     const Tensor& key_res, const Tensor& value_res, const Tensor& attn_scores,
                                     const Tensor& attn_res, const Tensor& context, const Tensor& y_grad,
                                     const Tensor& dropout_mask, int64_t attn_head_num, int64_t attn_dim_per_head,
                                     int64_t src_len, int64_t tgt_len, double dropout_prob,
                                     bool /*softmax_use_float: the type of attn_scores says it*/) {
  const char* op = "npu_multi_head_attention_backward";
  const HeadSizes sizes{attn_head_num, attn_dim_per_head, src_len, tgt_len};
  check_same_shape(op, "context", context, "query_res as rows", in_rows(query_res));
  const double keep_prob = keep_prob_of(op, dropout_prob);
  const LinearGradients out = linear_gradients(wide(y_grad), context, out_proj_weight, out_proj_bias);
  const Tensor given = in_heads(wide(y_grad).matmul(wide(out_proj_weight)), tgt_len, attn_head_num);
  const Tensor of_kept = given.matmul(wide(value_res).transpose(-1, -2));
  const Tensor of_weights = drop_again(of_kept, dropout_mask, keep_prob);
  const Tensor of_scores = softmax_gradient(of_weights, attn_scores, -1) * sizes.scale();
  const auto of = [&](const Tensor& gradient, const Tensor& rows, const Tensor& weight, const OptionalTensor& bias) {
    return linear_gradients(in_rows(gradient), rows, weight, bias);
  };
  const LinearGradients q = of(of_scores.matmul(wide(key_res)), query, query_weight, query_bias);
  const LinearGradients k = of(of_scores.transpose(-1, -2).matmul(wide(query_res)), key, key_weight, key_bias);
  const LinearGradients v = of(wide(attn_res).transpose(-1, -2).matmul(given), value, value_weight, value_bias);
  return {q.weight, k.weight, v.weight, out.weight, q.rows, k.rows, v.rows, q.bias, k.bias, v.bias, out.bias};
}

std::vector<Tensor> attention_layernorm_qkv(const Tensor& x, const Tensor& kernel_query, const Tensor& kernel_key,
                                            const Tensor& kernel_value, const Tensor& gamma, const Tensor& beta,
                                            const OptionalTensor& bias_query, const OptionalTensor& bias_key,
                                            const OptionalTensor& bias_value, int64_t seq_len, int64_t num_heads,
                                            double eps) {
  const char* op = "npu_fused_attention_layernorm_qkv_fwd";
  check_rows(op, "x", x, seq_len);
  check_last_dims(op, "gamma", gamma, "x", x);
  check_same_shape(op, "beta", beta, "gamma", gamma);
  const Tensor exact = wide(x);
  const Tensor mean = exact.mean(1), variance = (exact - mean.unsqueeze(1)).square().mean(1);
  const Tensor normed = (exact - mean.unsqueeze(1)) * variance.add(eps).rsqrt().unsqueeze(1) * wide(gamma) + wide(beta);
  const Tensor norm = normed.to(x.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
  const auto projected = [&](const Tensor& kernel, const OptionalTensor& bias) {
    return in_heads(through_linear(norm, kernel.t(), bias), seq_len, num_heads).contiguous().to(x.scalar_type());
  };
  const auto typed = [&](const Tensor& statistics) { return statistics.to(x.scalar_type()); };
  return {norm,
          projected(kernel_query, bias_query),
          projected(kernel_key, bias_key),
          projected(kernel_value, bias_value),
          typed(mean),
          typed(variance)};
}

std::vector<Tensor> attention_qkv_grad(const Tensor& grad_output_query, const Tensor& grad_output_key,
                                       const Tensor& grad_output_value, const Tensor& query_kernel,
                                       const Tensor& key_kernel, const Tensor& value_kernel,
                                       const Tensor& hidden_states, const Tensor& grad_output_ln) {
  const char* op = "npu_fused_attention_qkv_grad";
  check_dims(op, "hidden_states", hidden_states, 2, 2);
  check_same_shape(op, "grad_output_ln", grad_output_ln, "hidden_states", hidden_states);
  Tensor of_hidden = wide(grad_output_ln);
  std::vector<Tensor> kernels, biases;
  const auto add = [&](const char* name, const Tensor& gradient, const Tensor& kernel) {
    check_dims(op, name, gradient, 2, 4);
    const Tensor rows = wide(gradient.dim() == 4 ? in_rows(gradient) : gradient);
    of_hidden = of_hidden + rows.matmul(wide(kernel).t());
    kernels.push_back(wide(hidden_states).t().matmul(rows).to(kernel.scalar_type()));
    biases.push_back(rows.sum(0).to(kernel.scalar_type()));
  };
  add("grad_output_query", grad_output_query, query_kernel);
  add("grad_output_key", grad_output_key, key_kernel);
  add("grad_output_value", grad_output_value, value_kernel);
  std::vector<Tensor> out{of_hidden.to(hidden_states.scalar_type())};
  out.insert(out.end(), kernels.begin(), kernels.end());
  out.insert(out.end(), biases.begin(), biases.end());
  return out;
}

}  // namespace

void define_multi_head_attention(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_multi_head_attention(Tensor query, Tensor key, Tensor value, Tensor query_weight, Tensor "
                "key_weight, Tensor value_weight, Tensor attn_mask, Tensor out_proj_weight, Tensor? query_bias, "
                "Tensor? key_bias, Tensor? value_bias, Tensor? out_proj_bias, Tensor? dropout_mask, int attn_head_num, "
                "int attn_dim_per_head, int src_len, int tgt_len, float dropout_prob, bool softmax_use_float) -> "
                "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&multi_head_attention),
      .definition = "Multi-head attention with its four linear layers, as in torch.nn.MultiheadAttention (Vaswani et "
                    "al., 2017): q, k and v are the projections of query, key and value, context = dropout(softmax(q "
                    "@ k^T / sqrt(D) + attn_mask)) @ v, and y is the projection of context by out_proj_weight. query "
                    "is [B * tgt_len, C], key and value are [B * src_len, C], and weights are those of "
                    "torch.nn.Linear, for attn_head_num heads of size D = attn_dim_per_head. Dropout with "
                    "dropout_prob follows the bits of dropout_mask or is drawn. Results: y; the dropout mask in bits "
                    "(uint8, 1 for a weight that is kept); q, k and v [B, N, length, D]; the softmax weights before "
                    "dropout (in float32 with softmax_use_float) and after it; context [B * tgt_len, N * D]. Results "
                    "have the type of query where no other is named.",
  });
  library.add({
      .schema = "npu::npu_multi_head_attention_backward(Tensor query, Tensor key, Tensor value, Tensor query_weight, "
                "Tensor key_weight, Tensor value_weight, Tensor out_proj_weight, Tensor? query_bias, Tensor? key_bias, "
                "Tensor? value_bias, Tensor? out_proj_bias, Tensor query_res, Tensor key_res, Tensor value_res, Tensor "
                "attn_scores, Tensor attn_res, Tensor context, Tensor y_grad, Tensor dropout_mask, int attn_head_num, "
                "int attn_dim_per_head, int src_len, int tgt_len, float dropout_prob, bool softmax_use_float) -> "
                "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&multi_head_attention_backward),
      .definition = "Gradients of npu_multi_head_attention for query_weight, key_weight, value_weight, "
                    "out_proj_weight, query, key, value, query_bias, key_bias, value_bias and out_proj_bias, in this "
                    "order. y_grad is the gradient of y; query_res, key_res, value_res, attn_scores (weights before "
                    "dropout), attn_res (after it), context and dropout_mask are results of the forward call. "
                    "Gradients of biases are [1, columns], or of size [0] for an absent bias. softmax_use_float is "
                    "ignored.",
  });
  library.add({
      .schema = "npu::npu_fused_attention_layernorm_qkv_fwd(Tensor x, Tensor kernel_query, Tensor kernel_key, Tensor "
                "kernel_value, Tensor gamma, Tensor beta, Tensor? bias_query=None, Tensor? bias_key=None, Tensor? "
                "bias_value=None, int seq_len=128, int num_heads=12, float eps=1e-05) -> Tensor[]",
      .kernel = parts(&attention_layernorm_qkv),
      .definition = "Layer normalisation and the projections of attention: norm = torch.nn.functional.layer_norm(x, "
                    "gamma, beta, eps), and for query, key and value norm @ kernel + bias, split into heads. x is [B "
                    "* seq_len, C], and the kernels are [C, N * D] for N = num_heads. Results: norm; query, key and "
                    "value [B, N, seq_len, D]; mean and biased variance of each row [B * seq_len]. All have the type "
                    "of x.",
  });
  library.add({
      .schema = "npu::npu_fused_attention_qkv_grad(Tensor grad_output_query, Tensor grad_output_key, Tensor "
                "grad_output_value, Tensor query_kernel, Tensor key_kernel, Tensor value_kernel, Tensor hidden_states, "
                "Tensor grad_output_ln) -> Tensor[]",
      .kernel = parts(&attention_qkv_grad),
      .definition = "Gradients of hidden_states @ kernel + bias for query, key and value. The grad_output tensors are "
                    "the gradients of the three results, [B, N, S, D] or [B * S, N * D]; hidden_states is [B * S, C], "
                    "and the kernels are [C, N * D]. Results: the gradient of hidden_states, to which grad_output_ln "
                    "is added; those of the three kernels; those of the three biases.",
  });
}

}  // namespace npugraph::npu_ops
