// SPDX-License-Identifier: Apache-2.0
#include "device/npu/printer.h"

#include <atomic>
#include <iostream>

#include <ATen/core/Formatting.h>
#include <ATen/core/Tensor.h>

namespace npugraph::npu {
namespace {

void to_standard_output(const std::string& name, const at::Tensor& tensor) {
  std::cout << name << (name.empty() ? "" : "=") << tensor << std::endl;
}

std::atomic<Printer> current_printer{&to_standard_output};

}  // namespace

void set_printer(Printer printer) noexcept { current_printer.store(printer); }
void print(const std::string& name, const at::Tensor& tensor) { current_printer.load()(name, tensor); }

}  // namespace npugraph::npu
