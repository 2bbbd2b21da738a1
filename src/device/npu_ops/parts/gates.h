// SPDX-License-Identifier: Apache-2.0
// Gated units: one half of a dimension gates the other.
#pragma once

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// mode 0: silu(a) * b (Shazeer, 2020, arXiv:2002.05202); `a` is the first half if `left`, else the second one.
// modes 1 and 2: a * sigmoid(alpha * a) * (b + bias), with a clamped to at most `limit` and b to [-limit, limit], as in
// gpt-oss (OpenAI, 2025). In mode 1 `a` are the even and `b` the odd elements; in mode 2 they are halves as in mode 0.
struct Gate {
  int64_t mode = 0;
  bool left = false;
  double limit = 7.0, alpha = 1.702, bias = 1.0;
};
Tensor gated(const char* op, const Tensor& x, int64_t dim, const Gate& gate);

// x * sigmoid(1.702 x), an approximation of gelu (Hendrycks and Gimpel, 2016, arXiv:1606.08415).
inline Tensor sigmoid_gelu(const Tensor& x) { return x * at::sigmoid(1.702 * x); }

}  // namespace npugraph::npu_ops
