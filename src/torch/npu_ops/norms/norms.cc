// SPDX-License-Identifier: Apache-2.0
// Root mean square normalisation. Statistics are in float32.
#include "torch/npu_ops/norms/norms.h"

#include <tuple>

#include "torch/npu_ops/families.h"

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
      .definition = "y = x / sqrt(mean(x^2) + epsilon) * gamma, over the last gamma.dim() dimensions; rstd in float32 "
                    "(Zhang and Sennrich, 2019)",
  });
  library.add({
      .schema = "npu::npu_rms_norm_backward(Tensor dy, Tensor input, Tensor gamma, Tensor rstd) -> (Tensor, Tensor)",
      .kernel = parts(&rms_norm_backward),
      .definition = "Gradients of npu_rms_norm for x and, in float32, for gamma",
  });
  library.add({
      .schema = "npu::npu_gemma_rms_norm(Tensor input, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)",
      .kernel = parts(&gemma_rms_norm),
      .definition = "npu_rms_norm with 1 + gamma in the place of gamma",
  });
  library.add({
      .schema =
          "npu::npu_add_rms_norm(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&add_rms_norm),
      .definition = "sum = x1 + x2 in their type; y = npu_rms_norm(sum). Results: y, rstd in float32, sum",
  });
  library.add({
      .schema = "npu::npu_add_rms_norm_v2(Tensor(a!) x1, Tensor(b!) x2, Tensor gamma, float epsilon=1e-06) -> Tensor",
      .kernel = parts(&add_rms_norm_v2),
      .definition = "npu_add_rms_norm that writes y into x1 and the sum into x2. Result: rstd",
  });
  library.add({
      .schema = "npu::npu_add_rms_norm_v2_functional(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> "
                "(Tensor, Tensor, Tensor)",
      .kernel = parts(&add_rms_norm_v2_functional),
      .definition = "npu_add_rms_norm. Results: rstd, y, sum",
  });
  library.add({
      .schema = "npu::npu_add_rms_norm_cast(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> (Tensor, "
                "Tensor, Tensor, Tensor)",
      .kernel = parts(&add_rms_norm_cast),
      .definition =
          "npu_add_rms_norm, and a copy of y, after it was rounded, in float32. Results: the copy, y, rstd, sum",
  });
}

}  // namespace npugraph::npu_ops
