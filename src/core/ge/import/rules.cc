// SPDX-License-Identifier: Apache-2.0
#include "ge/import/rules.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "ops/operators.h"

namespace npugraph::ge {
namespace {

const std::map<std::string_view, Rule>& rules() {
  static const auto rules = [] {
    std::map<std::string_view, Rule> rules;
    for (const auto rows : {pointwise_rules(), layout_rules(), product_rules(), norm_rules(), reduction_rules(),
                            index_rules(), number_rules(), attention_rules(), order_rules(), activation_rules(),
                            image_rules(), loss_rules(), text_rules()}) {
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

namespace {

std::vector<int64_t> ints(const Call& call, std::string_view name, size_t entries) {
  std::vector<int64_t> all = call.attr_ints(name);
  if (all.size() != entries) call.fail(cat("its attribute '", name, "' has ", entries, " entries, got ", all.size()));
  return all;
}

void require_least(const Call& call, std::string_view name, int64_t entry, int64_t least) {
  if (entry < least) call.fail(cat("the entries of its attribute '", name, "' are at least ", least, ", got ", entry));
}

}  // namespace

ir::ValueId as_tensor(Context& context, const Expr& number, DType dtype) {
  return context.add(aten::scalar_tensor::op(), {number, dtype, None{}, context.device()});
}

ir::ValueId counted(Context& context, const Expr& size) {
  return context.add(aten::arange_start_step::op(), {Expr(0), size, Expr(1), DType::kI64, None{}, context.device()});
}

void require_channels_first(const Call& call) {
  const std::string format = call.attr_string("data_format");
  if (format != "NCHW") call.fail(cat("its attribute 'data_format' has to be 'NCHW', got '", format, "'"));
}

std::vector<Expr> two_of(const Call& call, std::string_view name, size_t first, size_t entries, int64_t least) {
  const std::vector<int64_t> all = ints(call, name, entries);
  require_least(call, name, all[first], least);
  require_least(call, name, all[first + 1], least);
  return {Expr(all[first]), Expr(all[first + 1])};
}

std::vector<int64_t> four_pads(const Call& call) {
  std::vector<int64_t> pads = ints(call, "pads", 4);
  for (const int64_t pad : pads) require_least(call, "pads", pad, 0);
  return pads;
}

std::vector<Expr> even_pads(const Call& call) {
  const std::vector<int64_t> pads = four_pads(call);
  if (pads[0] != pads[1] || pads[2] != pads[3])
    call.fail(cat("its attribute 'pads' is the same at both sides of a dimension, got ", pads[0], ", ", pads[1], ", ",
                  pads[2], ", ", pads[3]));
  return {Expr(pads[0]), Expr(pads[2])};
}

}  // namespace npugraph::ge
