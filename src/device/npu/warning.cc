// SPDX-License-Identifier: Apache-2.0
#include "device/npu/warning.h"

#include <atomic>

#include <c10/util/Exception.h>

namespace npugraph::npu {
namespace {

void write_to_log(const std::string& text) { TORCH_WARN(text); }

std::atomic<WarningSink> current_sink{&write_to_log};

}  // namespace

void set_warning_sink(WarningSink sink) noexcept { current_sink.store(sink); }
void warn(const std::string& text) { current_sink.load()(text); }

}  // namespace npugraph::npu
