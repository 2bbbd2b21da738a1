// SPDX-License-Identifier: Apache-2.0
// Root mean square and layer normalisation. Statistics are in float32.
#include <tuple>
#include <vector>

#include "torch/npu_ops/checks.h"
#include "torch/npu_ops/families.h"

namespace npugraph::npu_ops {
namespace {

struct Normed {
  Tensor wide;  // before it is rounded to the type of the argument
  Tensor rstd;
};

Normed rms_normed(const char* op, const Tensor& x, const Tensor& gamma, double epsilon) {
  check_floating(op, "x", x);
  check_floating(op, "gamma", gamma);
  check_last_dims(op, "gamma", gamma, "x", x);
  std::vector<int64_t> dims;
  for (int64_t dim = -gamma.dim(); dim < 0; ++dim) dims.push_back(dim);
  const Tensor exact = wide(x);
  const Tensor rstd = exact.square().mean(dims, /*keepdim=*/true).add(epsilon).rsqrt();
  return {exact * rstd * wide(gamma), rstd};
}

std::tuple<Tensor, Tensor> rms_norm(const Tensor& x, const Tensor& gamma, double epsilon) {
  const Normed out = rms_normed("npu_rms_norm", x, gamma, epsilon);
  return {out.wide.to(x.scalar_type()), out.rstd};
}

std::tuple<Tensor, Tensor, Tensor> add_rms_norm(const Tensor& x1, const Tensor& x2, const Tensor& gamma,
                                                double epsilon) {
  check_same_shape("npu_add_rms_norm", "x2", x2, "x1", x1);
  const Tensor sum = x1 + x2;
  const Normed out = rms_normed("npu_add_rms_norm", sum, gamma, epsilon);
  return {out.wide.to(x1.scalar_type()), out.rstd, sum};
}

}  // namespace

void define_norms(Definitions& npu) {
  npu.composed("npu_rms_norm", &rms_norm,
               "y = x / sqrt(mean(x^2) + epsilon) * gamma, over the last gamma.dim() dimensions; rstd in float32 "
               "(Zhang and Sennrich, 2019)");
  npu.composed("npu_add_rms_norm", &add_rms_norm,
               "sum = x1 + x2 in their type; y = npu_rms_norm(sum). Results: y, rstd in float32, sum");
}

}  // namespace npugraph::npu_ops
