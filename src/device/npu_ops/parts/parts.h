// SPDX-License-Identifier: Apache-2.0
// Small parts of compositions. Sizes may be symbols.
#pragma once

#include <limits>

#include <ATen/ATen.h>

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

}  // namespace npugraph::npu_ops
