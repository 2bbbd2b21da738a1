// SPDX-License-Identifier: Apache-2.0
// Warnings for the user.
#pragma once

#include <string>

namespace npugraph::npu {

// Where warnings go; at first to torch's log. May throw, where a warning is to be an error. Called by any thread.
using WarningSink = void (*)(const std::string& text);
void set_warning_sink(WarningSink sink) noexcept;
void warn(const std::string& text);

}  // namespace npugraph::npu
