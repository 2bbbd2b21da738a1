// SPDX-License-Identifier: Apache-2.0
// Tensors whose memory kernels may read and write themselves.
#pragma once

#include <initializer_list>

#include <ATen/core/Tensor.h>

#include "backend/own_kernels/export.h"

namespace npugraph::own {

// False for tensors that stand for others: fake and functional ones, and those of other devices.
NPUGRAPH_EXPORT bool has_memory(const at::Tensor& tensor);

// Whether autograd records calls with these tensors, for which such kernels have no gradient.
NPUGRAPH_EXPORT bool wants_gradient(std::initializer_list<const at::Tensor*> tensors);

}  // namespace npugraph::own
