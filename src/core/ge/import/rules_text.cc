// SPDX-License-Identifier: Apache-2.0
// Prints.
#include <array>
#include <memory>

#include "ge/import/rules.h"
#include "ops/operators.h"

namespace npugraph::ge {

namespace {

std::vector<Operand> string_format(const Call& call) {
  auto text = std::make_shared<Text>();
  text->format = call.attr_string("template");
  text->placeholder = call.attr_string("placeholder");
  text->summarize = call.attr_int("summarize");
  for (Operand* tensor : call.list("x")) text->tensors.push_back({call.context().value_of(*tensor)});
  return {{.text = std::move(text)}};
}

std::vector<Operand> print(const Call& call) {
  const Text& text = call.text("x");
  const Attr summarize = Expr(text.summarize);
  call.context().add_typed(air::print::op(),
                           {text.tensors, text.format, text.placeholder, summarize, call.attr_string("output_stream")},
                           {});
  return {};
}

constexpr auto kTextRules = std::to_array<RuleRow>({
    {"PrintV2", print},
    {"StringFormat", string_format},
});

}  // namespace

std::span<const RuleRow> text_rules() { return kTextRules; }

}  // namespace npugraph::ge
