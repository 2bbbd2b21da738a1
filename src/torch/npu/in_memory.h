// SPDX-License-Identifier: Apache-2.0
// Tensors whose memory kernels may read and write themselves.
#pragma once

#include <ATen/ATen.h>

namespace npugraph::npu_ops {

// False for tensors that stand for others: fake and functional ones, and those of other devices.
bool has_memory(const at::Tensor& tensor);

}  // namespace npugraph::npu_ops
