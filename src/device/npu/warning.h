// SPDX-License-Identifier: Apache-2.0
// Warnings for the user.
#pragma once

#include <string>

namespace npugraph::npu {

// Receives the warnings; the default writes to torch's log. May throw, if warnings are errors. Called by any thread.
using WarningSink = void (*)(const std::string& text);
void set_warning_sink(WarningSink sink) noexcept;
void warn(const std::string& text);

}  // namespace npugraph::npu
