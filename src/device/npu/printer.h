// SPDX-License-Identifier: Apache-2.0
// Tensors that operators print for the user.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace npugraph::npu {

// Prints a cpu tensor; the default prints to the standard output. An empty name
// means no name. Called by any thread; may throw.
using Printer = void (*)(const std::string& name, const at::Tensor& tensor);
void set_printer(Printer printer) noexcept;
void print(const std::string& name, const at::Tensor& tensor);

}  // namespace npugraph::npu
