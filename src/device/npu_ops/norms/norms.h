// SPDX-License-Identifier: Apache-2.0
// Normalisation that several families of operators share.
#pragma once

#include <vector>

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

struct Normed {
  Tensor wide;  // before it is rounded to the type of the argument
  Tensor rstd;
};

// x / sqrt(mean(x^2) + epsilon) * gamma, over the last gamma.dim() dimensions.
Normed rms_normed(const char* op, const Tensor& x, const Tensor& gamma, double epsilon);

struct RmsGradients {
  Tensor x, gamma;  // before they are rounded
};

// Gradients for x and gamma, given the gradient `dy` for y = x * rstd * gamma, where rstd is that of rms_normed.
RmsGradients rms_norm_gradients(const char* op, const Tensor& dy, const Tensor& x, const Tensor& gamma,
                                const Tensor& rstd);

// -1, -2, ...: the dimensions that `gamma` spans.
std::vector<int64_t> last_dims(const Tensor& gamma);

}  // namespace npugraph::npu_ops
