// SPDX-License-Identifier: Apache-2.0
// Normalisation by mean and variance: of layers, groups and batches. Statistics are in float32.
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/norms/norms.h"

namespace npugraph::npu_ops {
namespace {

struct Centred {
  Tensor unit;  // mean 0, variance 1
  Tensor mean, rstd;
};

Centred centred(const Tensor& exact, at::IntArrayRef dims, double epsilon) {
  const Tensor mean = exact.mean(dims, /*keepdim=*/true);
  const Tensor apart = exact - mean;
  const Tensor rstd = apart.square().mean(dims, /*keepdim=*/true).add(epsilon).rsqrt();
  return {apart * rstd, mean, rstd};
}

// The gradient for x of unit = (x - mean) * rstd, given the gradient `grad` for unit.
Tensor centred_backward(const Tensor& grad, const Tensor& unit, const Tensor& rstd, at::IntArrayRef dims) {
  const Tensor along = (grad * unit).mean(dims, /*keepdim=*/true);
  return rstd * (grad - grad.mean(dims, /*keepdim=*/true) - unit * along);
}

struct LayerGradients {
  Tensor x, gamma, beta;
};

LayerGradients layer_norm_gradients(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                    const Tensor& gamma) {
  const Tensor unit = (wide(x) - wide(mean)) * wide(rstd);
  const Tensor dx = centred_backward(wide(dy) * wide(gamma), unit, wide(rstd), last_dims(gamma));
  return {dx, (wide(dy) * unit).sum_to_size_symint(gamma.sym_sizes()), wide(dy).sum_to_size_symint(gamma.sym_sizes())};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> add_layer_norm(const Tensor& x1, const Tensor& x2, const Tensor& gamma,
                                                          const Tensor& beta, double epsilon, bool additional_output) {
  check_same_shape("npu_add_layer_norm", "x2", x2, "x1", x1);
  check_last_dims("npu_add_layer_norm", "gamma", gamma, "x1", x1);
  check_same_shape("npu_add_layer_norm", "beta", beta, "gamma", gamma);
  const Tensor sum = x1 + x2;
  const Centred out = centred(wide(sum), last_dims(gamma), epsilon);
  const Tensor y = (out.unit * wide(gamma) + wide(beta)).to(sum.scalar_type());
  return {y, out.mean, out.rstd, additional_output ? sum : x1.new_empty({0})};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> add_layer_norm_backward(const OptionalTensor& dy, const Tensor& x1,
                                                                   const Tensor& x2, const Tensor& rstd,
                                                                   const Tensor& mean, const Tensor& gamma,
                                                                   const OptionalTensor& dsum) {
  check_same_shape("npu_add_layer_norm_backward", "x2", x2, "x1", x1);
  const Tensor sum = x1 + x2;
  const Tensor grad = dy && dy->defined() ? *dy : at::zeros_like(sum);
  const LayerGradients out = layer_norm_gradients(grad, sum, mean, rstd, gamma);
  const Tensor dx = (dsum && dsum->defined() ? out.x + wide(*dsum) : out.x).to(x1.scalar_type());
  return {dx, dx.clone(), out.gamma, out.beta};
}

std::tuple<Tensor, Tensor, Tensor> deep_norm(const Tensor& x, const Tensor& gx, const Tensor& beta, const Tensor& gamma,
                                             double alpha, double epsilon) {
  check_same_shape("npu_deep_norm", "gx", gx, "x", x);
  check_last_dims("npu_deep_norm", "gamma", gamma, "x", x);
  check_same_shape("npu_deep_norm", "beta", beta, "gamma", gamma);
  const Centred out = centred(wide(x) * alpha + wide(gx), last_dims(gamma), epsilon);
  return {out.mean, out.rstd, (out.unit * wide(gamma) + wide(beta)).to(x.scalar_type())};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> deep_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gx,
                                                              const Tensor& gamma, const Tensor& mean,
                                                              const Tensor& rstd, double alpha) {
  check_same_shape("npu_deep_norm_backward", "gx", gx, "x", x);
  const LayerGradients out = layer_norm_gradients(dy, wide(x) * alpha + wide(gx), mean, rstd, gamma);
  return {(out.x * alpha).to(x.scalar_type()), out.x.to(gx.scalar_type()), out.beta, out.gamma};
}

Tensor layer_norm_eval(const Tensor& input, at::IntArrayRef shape, const OptionalTensor& weight,
                       const OptionalTensor& bias, double eps) {
  return at::layer_norm(input, shape, weight, bias, eps);
}

std::tuple<Tensor, Tensor, Tensor> layernorm_grad(const Tensor& grad_out, const Tensor& input, at::IntArrayRef shape,
                                                  const Tensor& mean, const Tensor& rstd, const OptionalTensor& weight,
                                                  const OptionalTensor& /*bias*/) {
  check_same_shape("npu_layernorm_grad", "grad_out", grad_out, "input", input);
  const Tensor gamma = weight && weight->defined() ? *weight : input.new_ones(shape);
  const LayerGradients out = layer_norm_gradients(grad_out, input, mean, rstd, gamma);
  return {out.x.to(input.scalar_type()), out.gamma.to(gamma.scalar_type()), out.beta.to(gamma.scalar_type())};
}

// Reshapes (batch, channels, ...) to (batch, groups, rest).
Tensor in_groups(const char* op, const Tensor& x, int64_t groups) {
  check_floating(op, "input", x);
  check_dims(op, "input", x, 2, 8);
  TORCH_CHECK(groups > 0 && x.sym_size(1) % groups == 0, op, ": input has ", x.sym_size(1),
              " channels, which are not groups of ", groups);
  return x.reshape_symint({x.sym_size(0), groups, -1});
}

// `values`, one for each channel, shaped to broadcast with `x`; undefined if `values` is.
Tensor per_channel(const Tensor& values, const Tensor& x) {
  if (!values.defined()) return values;
  std::vector<int64_t> shape(static_cast<size_t>(x.dim() - 1), 1);
  shape[0] = -1;
  return values.reshape(shape);
}

struct GroupNormed {
  Tensor wide, mean, rstd;  // mean and rstd are (batch, groups)
};

GroupNormed group_normed(const char* op, const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                         int64_t groups, double eps) {
  const Centred out = centred(wide(in_groups(op, x, groups)), {-1}, eps);
  Tensor y = out.unit.reshape_symint(x.sym_sizes());
  if (const Tensor scale = per_channel(wide(weight), x); scale.defined()) y = y * scale;
  if (const Tensor shift = per_channel(wide(bias), x); shift.defined()) y = y + shift;
  return {y, out.mean.squeeze(-1).to(x.scalar_type()), out.rstd.squeeze(-1).to(x.scalar_type())};
}

std::tuple<Tensor, Tensor, Tensor> group_norm_silu(const Tensor& input, const OptionalTensor& weight,
                                                   const OptionalTensor& bias, int64_t group, double eps) {
  const GroupNormed out = group_normed("npu_group_norm_silu", input, weight, bias, group, eps);
  return {at::silu(out.wide).to(input.scalar_type()), out.mean, out.rstd};
}

std::tuple<Tensor, Tensor, Tensor> group_norm_swish(const Tensor& input, int64_t num_groups, const Tensor& weight,
                                                    const Tensor& bias, std::optional<double> eps,
                                                    std::optional<double> swish_scale) {
  const GroupNormed out = group_normed("npu_group_norm_swish", input, weight, bias, num_groups, eps.value_or(1e-5));
  const Tensor y = out.wide * at::sigmoid(out.wide * swish_scale.value_or(1.0));
  return {y.to(input.scalar_type()), out.mean, out.rstd};
}

std::tuple<Tensor, Tensor, Tensor> group_norm_swish_grad(const Tensor& grad, const Tensor& input, int64_t num_groups,
                                                         const Tensor& weight, const Tensor& bias, const Tensor& mean,
                                                         const Tensor& rstd, std::array<bool, 3> mask,
                                                         std::optional<double> swish_scale) {
  const char* op = "npu_group_norm_swish_grad";
  check_same_shape(op, "grad", grad, "input", input);
  const double scale = swish_scale.value_or(1.0);
  const Tensor spread = wide(rstd).unsqueeze(-1);
  const Tensor unit = (wide(in_groups(op, input, num_groups)) - wide(mean).unsqueeze(-1)) * spread;
  const Tensor flat = unit.reshape_symint(input.sym_sizes());
  const Tensor normed = flat * per_channel(wide(weight), input) + per_channel(wide(bias), input);
  const Tensor gate = at::sigmoid(normed * scale);
  const Tensor inner = wide(grad) * (gate + scale * normed * gate * (1 - gate));
  std::vector<int64_t> others{0};
  for (int64_t dim = 2; dim < input.dim(); ++dim) others.push_back(dim);
  const Tensor scaled = in_groups(op, inner * per_channel(wide(weight), input), num_groups);
  const Tensor dx = centred_backward(scaled, unit, spread, {-1}).reshape_symint(input.sym_sizes());
  const auto wanted = [&](size_t i, const Tensor& value, const Tensor& like) {
    return mask[i] ? value.to(like.scalar_type()) : like.new_empty({0});
  };
  return {wanted(0, dx, input), wanted(1, (inner * flat).sum(others), weight), wanted(2, inner.sum(others), bias)};
}

Tensor normalize_batch(const Tensor& input, const Tensor& seq_len, int64_t normalize_type) {
  const char* op = "npu_normalize_batch";
  check_floating(op, "input", input);
  check_dims(op, "input", input, 3, 3);
  TORCH_CHECK(normalize_type == 0 || normalize_type == 1, op, ": normalize_type is ", normalize_type,
              ", allowed are 0 (each feature) and 1 (all features)");
  const std::vector<int64_t> dims = normalize_type == 0 ? std::vector<int64_t>{2} : std::vector<int64_t>{1, 2};
  const Tensor lengths = seq_len.to(at::kLong).reshape({-1, 1, 1});
  const Tensor valid = at::arange(input.sym_size(2), lengths.options()) < lengths;
  const Tensor exact = wide(input);
  const Tensor count =
      normalize_type == 0 ? lengths.to(exact.scalar_type()) : lengths.to(exact.scalar_type()) * input.sym_size(1);
  const Tensor mean = at::where(valid, exact, 0.0).sum(dims, /*keepdim=*/true) / count;
  const Tensor apart = exact - mean;
  const Tensor variance = at::where(valid, apart.square(), 0.0).sum(dims, /*keepdim=*/true) / (count - 1);
  return (apart / (variance.sqrt() + 1e-5)).to(input.scalar_type());
}

std::tuple<Tensor, Tensor> batch_norm_reduce(const Tensor& input, double /*eps*/) {
  check_floating("batch_norm_reduce", "input", input);
  check_dims("batch_norm_reduce", "input", input, 2, 8);
  const Tensor channels = wide(input).transpose(0, 1).flatten(1);
  return {channels.sum(1), channels.square().sum(1)};
}

std::tuple<Tensor, Tensor> batch_norm_gather_stats_update(const Tensor& /*input*/, const Tensor& sums,
                                                          const Tensor& square_sums, const OptionalTensor& running_mean,
                                                          const OptionalTensor& running_var, double momentum,
                                                          double eps, const Tensor& counts) {
  check_same_shape("batch_norm_gather_stats_update", "invstd", square_sums, "mean", sums);
  const Tensor count = wide(counts).sum();
  const Tensor mean = wide(sums).sum(0) / count;
  const Tensor variance = wide(square_sums).sum(0) / count - mean.square();
  if (running_mean && running_mean->defined()) running_mean->mul_(1 - momentum).add_(mean * momentum);
  if (running_var && running_var->defined())
    running_var->mul_(1 - momentum).add_(variance * (count / (count - 1)) * momentum);
  return {mean, (variance + eps).rsqrt()};
}

}  // namespace

void define_layer_norms(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_add_layer_norm(Tensor x1, Tensor x2, Tensor gamma, Tensor beta, float epsilon=1e-05, bool "
                "additional_output=False) -> (Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&add_layer_norm),
      .definition = "Addition of a residual, followed by layer normalisation (Ba et al., 2016) over the last "
                    "gamma.dim() dimensions: sum = x1 + x2, rounded to their type, and y = (sum - mean) * rstd * "
                    "gamma + beta with rstd = 1 / sqrt(variance + epsilon). x1 and x2 have the same shape [..., "
                    "*gamma.shape], and beta has that of gamma. Results: y in the type of sum; mean and rstd in "
                    "float32, with size 1 in each normalised dimension; and sum, or an empty tensor unless "
                    "additional_output is True.",
  });
  library.add({
      .schema = "npu::npu_add_layer_norm_backward(Tensor? dy_opt, Tensor x1, Tensor x2, Tensor rstd, Tensor mean, "
                "Tensor gamma, Tensor? dsum_opt) -> (Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&add_layer_norm_backward),
      .definition = "Gradient of npu_add_layer_norm. dy_opt and dsum_opt are the gradients of y and of sum, where "
                    "None counts as zero; mean and rstd are results of the forward call. Results: the gradients of x1 "
                    "and of x2, which are equal, in the type of x1, and the gradients of gamma and beta in float32.",
  });
  library.add({
      .schema = "npu::npu_deep_norm(Tensor x, Tensor gx, Tensor beta, Tensor gamma, float alpha=0.3, float "
                "epsilon=1e-06) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&deep_norm),
      .definition = "Layer normalisation of a residual sum that weighs the skip connection (DeepNet: Wang et al., "
                    "2022): with s = alpha * x + gx, y = (s - mean) * rstd * gamma + beta over the last gamma.dim() "
                    "dimensions. gx is the output of the sublayer, of x's shape. Results: mean and rstd = 1 / "
                    "sqrt(variance + epsilon) in float32, with size 1 in each normalised dimension, and y in the type "
                    "of x.",
  });
  library.add({
      .schema = "npu::npu_deep_norm_backward(Tensor dy, Tensor x, Tensor gx, Tensor gamma, Tensor mean, Tensor rstd, "
                "float alpha=0.3) -> (Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&deep_norm_backward),
      .definition = "Gradient of npu_deep_norm. dy is the gradient of y; mean and rstd are results of the forward "
                    "call. Results: the gradients of x and gx in their types, and the gradients of beta and gamma, in "
                    "this order, in float32.",
  });
  library.add({
      .schema = "npu::npu_layer_norm_eval(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? "
                "bias=None, float eps=1e-05) -> Tensor",
      .kernel = parts(&layer_norm_eval),
      .definition = "torch.nn.functional.layer_norm (Ba et al., 2016): (input - mean) / sqrt(variance + eps) * weight "
                    "+ bias over the last dimensions of input, whose sizes are normalized_shape. weight and bias have "
                    "the shape normalized_shape and stand for 1 and 0 where they are None. The result has the shape "
                    "and type of input.",
  });
  library.add({
      .schema = "npu::npu_layernorm_grad(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor mean, Tensor "
                "rstd, Tensor? weight, Tensor? bias) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&layernorm_grad),
      .definition = "Gradient of torch.nn.functional.layer_norm. grad_out is the gradient of its result; mean and "
                    "rstd = 1 / sqrt(variance + eps) have size 1 in each normalised dimension. bias is ignored. "
                    "Results: the gradient of input, in its type, and the gradients of weight and bias, in the type "
                    "of weight, or of input where weight is None.",
  });
  library.add({
      .schema = "npu::npu_group_norm_silu(Tensor input, Tensor? weight, Tensor? bias, int group, float eps=0.00001) -> "
                "(Tensor, Tensor, Tensor)",
      .kernel = parts(&group_norm_silu),
      .definition = "Group normalisation (Wu and He, 2018), followed by SiLU: y = "
                    "silu(torch.nn.functional.group_norm(input, group, weight, bias, eps)). input is [N, C, ...], "
                    "where C is a multiple of group; weight and bias are [C] and stand for 1 and 0 where they are "
                    "None. Results: y, of the shape and type of input, and mean and rstd = 1 / sqrt(variance + eps) "
                    "of each group, [N, group], in the type of input.",
  });
  library.add({
      .schema = "npu::npu_group_norm_swish(Tensor input, int num_groups, Tensor weight, Tensor bias, float? eps=1e-5, "
                "float? swish_scale=1.0) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&group_norm_swish),
      .definition = "Group normalisation (Wu and He, 2018), followed by swish (Ramachandran et al., 2017): y = n * "
                    "sigmoid(swish_scale * n) with n = torch.nn.functional.group_norm(input, num_groups, weight, "
                    "bias, eps). input is [N, C, ...]; weight and bias are [C]. Results: y, of the shape and type of "
                    "input, and mean and rstd = 1 / sqrt(variance + eps) of each group, [N, num_groups], in the type "
                    "of input.",
  });
  library.add({
      .schema =
          "npu::npu_group_norm_swish_grad(Tensor grad, Tensor input, int num_groups, Tensor weight, Tensor bias, "
          "Tensor mean, Tensor rstd, bool[3] grad_input_mask, float? swish_scale=1.0) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&group_norm_swish_grad),
      .definition = "Gradient of npu_group_norm_swish. grad is the gradient of y; mean and rstd are results of the "
                    "forward call. Results: the gradients of input, weight and bias, each in the type of its tensor, "
                    "or an empty tensor where grad_input_mask is False.",
  });
  library.add({
      .schema = "npu::npu_normalize_batch(Tensor input, Tensor seq_len, int normalize_type=0) -> Tensor",
      .kernel = parts(&normalize_batch),
      .traits = {.on_host = {"seq_len"}},
      .definition = "Normalises a batch of padded sequences to mean 0 and standard deviation 1 (normalize_batch of "
                    "NeMo's speech features): (input - mean) / (std + 1e-5). input is [batch, features, time], and "
                    "seq_len, [batch], has the length of each sequence. mean and the unbiased std are taken over the "
                    "first seq_len time steps, of each feature (normalize_type 0) or of all features together (1). "
                    "Time steps behind the sequence are normalised, too. The result has the shape and type of input.",
  });
  library.add({
      .schema = "npu::batch_norm_reduce(Tensor input, float eps) -> (Tensor, Tensor)",
      .kernel = parts(&batch_norm_reduce),
      .definition = "First step of synchronised batch normalisation (torch.nn.SyncBatchNorm): sums of each channel "
                    "over the batch of one process. input is [N, C, ...]; eps is ignored. Results: the sum and the "
                    "sum of squares of each channel, [C], in float32.",
  });
  library.add({
      .schema = "npu::batch_norm_gather_stats_update(Tensor input, Tensor mean, Tensor invstd, Tensor? running_mean, "
                "Tensor? running_var, float momentum, float eps, Tensor counts) -> (Tensor, Tensor)",
      .kernel = composite(&batch_norm_gather_stats_update),
      .definition = "Second step of synchronised batch normalisation: the statistics of the whole batch from the "
                    "results of batch_norm_reduce of P processes. mean and invstd hold their sums and sums of "
                    "squares, [P, C], and counts has the number of values per channel of each process, [P]. "
                    "running_mean and running_var are updated in place as by torch.nn.functional.batch_norm, with the "
                    "unbiased variance. input is ignored. Results: mean and 1 / sqrt(variance + eps), [C], in "
                    "float32.",
  });
}

}  // namespace npugraph::npu_ops
