// SPDX-License-Identifier: Apache-2.0
// Arithmetic on shapes while a graph is imported.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ge/import/call.h"
#include "ge/import/operand.h"

namespace npugraph::ge {

// The result of a call whose operands are all known as expressions, of integers unless the call only hands them on;
// nullopt if some are not, or if the operator is none of those that compute shapes. Such a call needs no node.
std::optional<Operand> fold_numbers(const Call& call, const std::vector<Operand*>& operands);

// The types of these operators.
std::vector<std::string_view> folded_types();

}  // namespace npugraph::ge
