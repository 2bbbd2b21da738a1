// SPDX-License-Identifier: Apache-2.0
// The meaning of IR operators: what each becomes in the Graph.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ge/import/call.h"
#include "ge/import/operand.h"

namespace npugraph::ge {

// Adds the nodes of a call to the Graph and returns its results, one for each output of the IR operator. UserError if
// the call is not allowed.
using Rule = std::vector<Operand> (*)(const Call& call);

struct RuleRow {
  std::string_view type;
  Rule rule;
};

// The rule of an IR operator; null if it has none.
Rule find_rule(std::string_view type);
// All types with a rule, sorted.
std::vector<std::string_view> ruled_types();

// The rows of each file.
std::span<const RuleRow> pointwise_rules();
std::span<const RuleRow> layout_rules();
std::span<const RuleRow> product_rules();
std::span<const RuleRow> norm_rules();
std::span<const RuleRow> reduction_rules();
std::span<const RuleRow> pooling_rules();
std::span<const RuleRow> index_rules();
std::span<const RuleRow> number_rules();
std::span<const RuleRow> attention_rules();

}  // namespace npugraph::ge
