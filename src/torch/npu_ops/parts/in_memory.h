// SPDX-License-Identifier: Apache-2.0
// Tensors whose memory kernels may read and write themselves.
#pragma once

#include <optional>

#include <ATen/ATen.h>

#include "tensor/dtype.h"

namespace npugraph::npu_ops {

// False for tensors that stand for others: fake and functional ones, and those of other devices.
bool has_memory(const at::Tensor& tensor);

// The type of elements that generated products and attention have for this one, on this machine.
std::optional<DType> generated_dtype(at::ScalarType type);

}  // namespace npugraph::npu_ops
