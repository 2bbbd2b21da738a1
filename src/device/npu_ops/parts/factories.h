// SPDX-License-Identifier: Apache-2.0
// Shared by operators that create tensors.
#pragma once

#include <ATen/ATen.h>

namespace npugraph::npu_ops {

// Options of a tensor on `device`, by default npu. Raises NotImplementedError if that is neither npu nor meta.
at::TensorOptions options_on_npu(const char* op, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                                 std::optional<at::Device> device, std::optional<bool> pin_memory);

}  // namespace npugraph::npu_ops
