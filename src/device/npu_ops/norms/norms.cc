// SPDX-License-Identifier: Apache-2.0
// Root mean square normalisation. Statistics are in float32.
#include "device/npu_ops/norms/norms.h"

#include <tuple>

#include "device/npu_ops/families.h"

namespace npugraph::npu_ops {

std::vector<int64_t> last_dims(const Tensor& gamma) {
  std::vector<int64_t> dims;
  for (int64_t dim = -gamma.dim(); dim < 0; ++dim) dims.push_back(dim);
  return dims;
}

Normed rms_normed(const char* op, const Tensor& x, const Tensor& gamma, double epsilon) {
  check_floating(op, "x", x);
  check_floating(op, "gamma", gamma);
  check_last_dims(op, "gamma", gamma, "x", x);
  const Tensor exact = wide(x);
  const Tensor rstd = exact.square().mean(last_dims(gamma), /*keepdim=*/true).add(epsilon).rsqrt();
  return {exact * rstd * wide(gamma), rstd};
}

RmsGradients rms_norm_gradients(const char* op, const Tensor& dy, const Tensor& x, const Tensor& gamma,
                                const Tensor& rstd) {
  check_same_shape(op, "dy", dy, "x", x);
  check_last_dims(op, "gamma", gamma, "x", x);
  const Tensor unit = wide(x) * rstd;
  const Tensor scaled = wide(dy) * wide(gamma);
  const Tensor along = (scaled * unit).mean(last_dims(gamma), /*keepdim=*/true);
  return {rstd * (scaled - unit * along), (wide(dy) * unit).sum_to_size_symint(gamma.sym_sizes())};
}

namespace {

std::tuple<Tensor, Tensor> rms_norm(const Tensor& x, const Tensor& gamma, double epsilon) {
  const Normed out = rms_normed("npu_rms_norm", x, gamma, epsilon);
  return {out.wide.to(x.scalar_type()), out.rstd};
}

std::tuple<Tensor, Tensor> gemma_rms_norm(const Tensor& x, const Tensor& gamma, double epsilon) {
  const Normed out = rms_normed("npu_gemma_rms_norm", x, wide(gamma) + 1, epsilon);
  return {out.wide.to(x.scalar_type()), out.rstd};
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& gamma,
                                             const Tensor& rstd) {
  const RmsGradients out = rms_norm_gradients("npu_rms_norm_backward", dy, x, gamma, rstd);
  return {out.x.to(x.scalar_type()), out.gamma};
}

struct SumNormed {
  Tensor y, rstd, sum;
};

SumNormed sum_normed(const char* op, const Tensor& x1, const Tensor& x2, const Tensor& gamma, double epsilon) {
  check_same_shape(op, "x2", x2, "x1", x1);
  const Tensor sum = x1 + x2;
  const Normed out = rms_normed(op, sum, gamma, epsilon);
  return {out.wide.to(x1.scalar_type()), out.rstd, sum};
}

std::tuple<Tensor, Tensor, Tensor> add_rms_norm(const Tensor& x1, const Tensor& x2, const Tensor& gamma,
                                                double epsilon) {
  const SumNormed out = sum_normed("npu_add_rms_norm", x1, x2, gamma, epsilon);
  return {out.y, out.rstd, out.sum};
}

Tensor add_rms_norm_v2(Tensor& x1, Tensor& x2, const Tensor& gamma, double epsilon) {
  const SumNormed out = sum_normed("npu_add_rms_norm_v2", x1, x2, gamma, epsilon);
  x1.copy_(out.y);
  x2.copy_(out.sum);
  return out.rstd;
}

std::tuple<Tensor, Tensor, Tensor> add_rms_norm_v2_functional(const Tensor& x1, const Tensor& x2, const Tensor& gamma,
                                                              double epsilon) {
  const SumNormed out = sum_normed("npu_add_rms_norm_v2_functional", x1, x2, gamma, epsilon);
  return {out.rstd, out.y, out.sum};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> add_rms_norm_cast(const Tensor& x1, const Tensor& x2, const Tensor& gamma,
                                                             double epsilon) {
  const SumNormed out = sum_normed("npu_add_rms_norm_cast", x1, x2, gamma, epsilon);
  // A copy, so that the result shares no memory with y if y is in float32.
  return {out.y.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true), out.y, out.rstd, out.sum};
}

}  // namespace

void define_norms(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_rms_norm(Tensor input, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)",
      .kernel = parts(&rms_norm),
      .definition = "Root mean square normalisation over the last gamma.dim() dimensions of input (Zhang and "
                    "Sennrich, 2019): y = input / sqrt(mean(input^2) + epsilon) * gamma. input is [..., *gamma.shape] "
                    "in float16, bfloat16 or float32; the mean is computed in float32. Results: y, of input's shape "
                    "and type, and rstd = 1 / sqrt(mean(input^2) + epsilon) in float32, with size 1 in each "
                    "normalised dimension.",
  });
  library.add({
      .schema = "npu::npu_rms_norm_backward(Tensor dy, Tensor input, Tensor gamma, Tensor rstd) -> (Tensor, Tensor)",
      .kernel = parts(&rms_norm_backward),
      .definition = "Gradient of npu_rms_norm. dy is the gradient of y, and rstd is the second result of the forward "
                    "call. Results: the gradient of input, in its type, and the gradient of gamma, in float32.",
  });
  library.add({
      .schema = "npu::npu_gemma_rms_norm(Tensor input, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)",
      .kernel = parts(&gemma_rms_norm),
      .definition = "npu_rms_norm with the factor 1 + gamma in the place of gamma, as in the models of Gemma: y = "
                    "input / sqrt(mean(input^2) + epsilon) * (1 + gamma).",
  });
  library.add({
      .schema =
          "npu::npu_add_rms_norm(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&add_rms_norm),
      .definition = "Addition of a residual, followed by npu_rms_norm: sum = x1 + x2, rounded to the type of the "
                    "inputs, and y = npu_rms_norm(sum, gamma, epsilon). x1 and x2 have the same shape. Results: y in "
                    "the type of x1, rstd in float32, and sum.",
  });
  library.add({
      .schema = "npu::npu_add_rms_norm_v2(Tensor(a!) x1, Tensor(b!) x2, Tensor gamma, float epsilon=1e-06) -> Tensor",
      .kernel = parts(&add_rms_norm_v2),
      .definition = "npu_add_rms_norm in place: writes y into x1 and sum into x2. Result: rstd in float32.",
  });
  library.add({
      .schema = "npu::npu_add_rms_norm_v2_functional(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> "
                "(Tensor, Tensor, Tensor)",
      .kernel = parts(&add_rms_norm_v2_functional),
      .definition = "npu_add_rms_norm with its results in another order: rstd, y and sum. It is npu_add_rms_norm_v2 "
                    "without writes to x1 and x2.",
  });
  library.add({
      .schema = "npu::npu_add_rms_norm_cast(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> (Tensor, "
                "Tensor, Tensor, Tensor)",
      .kernel = parts(&add_rms_norm_cast),
      .definition = "npu_add_rms_norm that returns y in float32 as well, converted after y was rounded to the type of "
                    "x1. Results: y in float32, y in the type of x1, rstd in float32, and sum.",
  });
}

}  // namespace npugraph::npu_ops
