// SPDX-License-Identifier: Apache-2.0
// Messages of failed checks: "%" is the value that the check shows, "{n + 1}" an expression of the kernel's scalars.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/expr.h"

namespace npugraph::loop {

// The texts of the expressions between braces.
std::vector<std::string_view> expressions_in(std::string_view message);

// The message with all values filled in. UserError if an expression overflows.
std::string fill_in(const std::string& message, int64_t shown, const std::function<Scalar(const std::string&)>& scalar);

}  // namespace npugraph::loop
