// SPDX-License-Identifier: Apache-2.0
// What operators tell the user: warnings, and tensors that they print.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace npugraph::npu {

// Receives the warnings; the default writes to torch's log. May throw, if warnings are errors. Called by any thread.
using WarningSink = void (*)(const std::string& text);
void set_warning_sink(WarningSink sink) noexcept;
void warn(const std::string& text);

// Prints a cpu tensor; the default prints to the standard output. An empty name means no name. Called by any thread;
// may throw.
using Printer = void (*)(const std::string& name, const at::Tensor& tensor);
void set_printer(Printer printer) noexcept;
void print(const std::string& name, const at::Tensor& tensor);

}  // namespace npugraph::npu
