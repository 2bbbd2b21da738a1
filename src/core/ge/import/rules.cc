// SPDX-License-Identifier: Apache-2.0
#include "ge/import/rules.h"

#include <algorithm>
#include <map>

namespace npugraph::ge {

namespace {

const std::map<std::string_view, Rule>& rules() {
  static const auto rules = [] {
    std::map<std::string_view, Rule> rules;
    for (const auto rows : {pointwise_rules(), layout_rules(), product_rules(), norm_rules(), reduction_rules(),
                            pooling_rules(), index_rules(), number_rules(), attention_rules()}) {
      for (const RuleRow& row : rows) rules.emplace(row.type, row.rule);
    }
    return rules;
  }();
  return rules;
}

}  // namespace

Rule find_rule(std::string_view type) {
  const auto found = rules().find(type);
  return found == rules().end() ? nullptr : found->second;
}

std::vector<std::string_view> ruled_types() {
  std::vector<std::string_view> types;
  for (const auto& [type, rule] : rules()) types.push_back(type);
  return types;
}

}  // namespace npugraph::ge
