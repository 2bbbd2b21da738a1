// SPDX-License-Identifier: Apache-2.0
// Small parts of compositions. Sizes may be symbols.
#pragma once

#include <limits>

#include <ATen/ATen.h>

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// 0, 1, ..., n - 1 in int64 on the device of `like`.
at::Tensor count_up(const at::Tensor& like, const c10::SymInt& n);
// `x` extended by `count` elements along `dim`, all `value` (constant_pad_nd takes no symbols).
at::Tensor longer(const at::Tensor& x, int64_t dim, const c10::SymInt& count, const at::Scalar& value = 0);
// Exchanges the last two dimensions; the second function only where `transposes`.
inline at::Tensor flipped(const at::Tensor& x) { return x.transpose(-1, -2); }
inline at::Tensor transposed_if(const at::Tensor& x, bool transposes) { return transposes ? flipped(x) : x; }

// Packs eight truth values into each byte, the first in the lowest bit, and unpacks them.
at::Tensor pack_bits(const at::Tensor& bits);
at::Tensor unpack_bits(const at::Tensor& bytes);

// Options of a tensor on `device`, by default npu. Raises NotImplementedError if that is neither npu nor meta.
at::TensorOptions options_on_npu(const char* op, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                                 std::optional<at::Device> device, std::optional<bool> pin_memory);

// Random numbers from the default generator of the device that the operator was called on. Uniform in [0, 1).
at::Tensor uniform(c10::SymIntArrayRef sizes, const at::TensorOptions& options);
// Uniform in [low, high), in int64.
at::Tensor random_integers(int64_t low, int64_t high, c10::SymIntArrayRef sizes, const at::TensorOptions& options);

// Gated units: one half of a dimension gates the other.
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
