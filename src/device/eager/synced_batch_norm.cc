// SPDX-License-Identifier: Apache-2.0
// The parts of torch.nn.SyncBatchNorm, which cpu lacks: what each process computes before, between and after
// collectives. Channels are dimension 1; statistics are in float32 for inputs of 16 bits.
#include <tuple>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/var_mean.h>

#include "device/eager/register.h"

namespace npugraph::eager {

namespace {

using at::Tensor;
using std::optional;

Tensor wide(const Tensor& x) { return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat); }

std::vector<int64_t> all_but_channels(const Tensor& x) {
  std::vector<int64_t> dims = {0};
  for (int64_t dim = 2; dim < x.dim(); ++dim) dims.push_back(dim);
  return dims;
}

// `of`, which has one value for each channel, in sizes that broadcast with `x`.
Tensor along_channels(const Tensor& of, const Tensor& x) {
  std::vector<int64_t> sizes(x.dim(), 1);
  sizes[1] = -1;
  return wide(of).reshape(sizes);
}

std::tuple<Tensor, Tensor> stats(const Tensor& input, double eps) {
  const auto [var, mean] = at::var_mean(wide(input), all_but_channels(input), /*correction=*/0, /*keepdim=*/false);
  return {mean, (var + eps).rsqrt()};
}

void follow(const optional<Tensor>& running, const Tensor& value, double momentum) {
  if (running && running->defined()) running->mul_(1 - momentum).add_(value, momentum);
}

// The mean and inverse deviation over all processes, from those of each process, by Chan, Golub and LeVeque (1983).
std::tuple<Tensor, Tensor> gathered_stats(const Tensor&, const Tensor& mean, const Tensor& invstd,
                                          const optional<Tensor>& running_mean, const optional<Tensor>& running_var,
                                          double momentum, double eps, const Tensor& counts) {
  const Tensor count = wide(counts).unsqueeze(1), total = count.sum();
  const Tensor means = wide(mean);
  const Tensor all = (means * count).sum(0) / total;
  const Tensor variances = wide(invstd).pow(-2) - eps;
  const Tensor squares = ((variances + (means - all).square()) * count).sum(0);
  follow(running_mean, all, momentum);
  follow(running_var, squares / (total - 1), momentum);
  return {all, (squares / total + eps).rsqrt()};
}

Tensor normalised(const Tensor& input, const optional<Tensor>& weight, const optional<Tensor>& bias, const Tensor& mean,
                  const Tensor& invstd, double) {
  Tensor out = (wide(input) - along_channels(mean, input)) * along_channels(invstd, input);
  if (weight && weight->defined()) out = out * along_channels(*weight, input);
  if (bias && bias->defined()) out = out + along_channels(*bias, input);
  return out.to(input.scalar_type());
}

// Sums over this process of dy and of dy * (x - mean), and the gradients of weight and bias.
std::tuple<Tensor, Tensor, Tensor, Tensor> gradient_sums(const Tensor& grad_out, const Tensor& input,
                                                         const Tensor& mean, const Tensor& invstd,
                                                         const optional<Tensor>& weight, bool input_g, bool weight_g,
                                                         bool bias_g) {
  const auto dims = all_but_channels(input);
  const Tensor dy = wide(grad_out);
  const Tensor sum = dy.sum(dims), weighted = (dy * (wide(input) - along_channels(mean, input))).sum(dims);
  const auto type = weight && weight->defined() ? weight->scalar_type() : sum.scalar_type();
  return {input_g ? sum : Tensor(), input_g ? weighted : Tensor(),
          weight_g ? (weighted * wide(invstd)).to(type) : Tensor(), bias_g ? sum.to(type) : Tensor()};
}

Tensor input_gradient(const Tensor& grad_out, const Tensor& input, const Tensor& mean, const Tensor& invstd,
                      const optional<Tensor>& weight, const Tensor& sum_dy, const Tensor& sum_dy_xmu,
                      const Tensor& count) {
  const Tensor total = wide(count).sum(), centred = wide(input) - along_channels(mean, input);
  const Tensor slope = along_channels(wide(sum_dy_xmu) * wide(invstd).square() / total, input);
  Tensor out =
      (wide(grad_out) - along_channels(wide(sum_dy) / total, input) - centred * slope) * along_channels(invstd, input);
  if (weight && weight->defined()) out = out * along_channels(*weight, input);
  return out.to(input.scalar_type());
}

}  // namespace

void register_synced_batch_norm(torch::Library& library) {
  library.impl("batch_norm_stats", &stats);
  library.impl("batch_norm_gather_stats_with_counts", &gathered_stats);
  library.impl("batch_norm_elemt", &normalised);
  library.impl("batch_norm_backward_reduce", &gradient_sums);
  library.impl("batch_norm_backward_elemt", &input_gradient);
}

}  // namespace npugraph::eager
