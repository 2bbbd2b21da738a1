// SPDX-License-Identifier: Apache-2.0
#include "device/npu/messages.h"

#include <atomic>
#include <iostream>

#include <ATen/core/Formatting.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

namespace npugraph::npu {
namespace {

void write_to_log(const std::string& text) { TORCH_WARN(text); }

std::atomic<WarningSink> current_sink{&write_to_log};

}  // namespace

void set_warning_sink(WarningSink sink) noexcept { current_sink.store(sink); }
void warn(const std::string& text) { current_sink.load()(text); }

namespace {

void to_standard_output(const std::string& name, const at::Tensor& tensor) {
  std::cout << name << (name.empty() ? "" : "=") << tensor << std::endl;
}

std::atomic<Printer> current_printer{&to_standard_output};

}  // namespace

void set_printer(Printer printer) noexcept { current_printer.store(printer); }
void print(const std::string& name, const at::Tensor& tensor) { current_printer.load()(name, tensor); }

}  // namespace npugraph::npu
