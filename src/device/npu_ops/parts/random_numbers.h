// SPDX-License-Identifier: Apache-2.0
// Random numbers for compositions, from the default generator of the device that the operator was called on.
#pragma once

#include <ATen/ATen.h>

namespace npugraph::npu_ops {

// Uniform in [0, 1).
at::Tensor uniform(c10::SymIntArrayRef sizes, const at::TensorOptions& options);
// Uniform in [low, high), in int64.
at::Tensor random_integers(int64_t low, int64_t high, c10::SymIntArrayRef sizes, const at::TensorOptions& options);

}  // namespace npugraph::npu_ops
