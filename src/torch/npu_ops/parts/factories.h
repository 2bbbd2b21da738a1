// SPDX-License-Identifier: Apache-2.0
// What operators that make tensors have in common.
#pragma once

#include <ATen/ATen.h>

namespace npugraph::npu_ops {

// Options of a tensor of `device`, npu by default. Raises NotImplementedError where that is neither npu nor meta.
at::TensorOptions options_on_npu(const char* op, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                                 std::optional<at::Device> device, std::optional<bool> pin_memory);

}  // namespace npugraph::npu_ops
