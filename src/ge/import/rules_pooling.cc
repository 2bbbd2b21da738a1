// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/error.h"
#include "ge/import/results.h"
#include "ge/import/rules.h"
#include "ops/operators.h"

namespace npugraph::ge {

namespace {

std::vector<Expr> pair(const Call& call, std::string_view name, size_t first, size_t second, size_t entries) {
  const std::vector<int64_t> all = call.attr_ints(name);
  if (all.size() != entries) call.fail(cat("its attribute '", name, "' has ", entries, " entries, got ", all.size()));
  return {Expr(all[first]), Expr(all[second])};
}

// Windows of height and width, in attributes of two entries.
std::vector<Operand> max_pool_with_argmax(const Call& call) {
  if (call.attr_string("data_format") != "NCHW") call.fail("its attribute 'data_format' has to be 'NCHW'");
  Context& context = call.context();
  auto results = context.add_all(
      aten::max_pool2d_with_indices::op(),
      {TensorRef{call.value("x")}, pair(call, "ksize", 0, 1, 2), pair(call, "strides", 0, 1, 2),
       pair(call, "pads", 0, 1, 2), pair(call, "dilation", 0, 1, 2), flag(call.attr_bool("ceil_mode"))});
  const std::optional<DType> places = call.output_type(1);
  if (places && *places != DType::kI64)
    results[1] = context.add(aten::_to_copy::op(), {TensorRef{results[1]}, *places});
  return all(results);
}

std::vector<Operand> adaptive_average(const Call& call) {
  const std::vector<int64_t> sizes = call.attr_ints("output_size");
  if (sizes.size() != 2) call.fail(cat("its attribute 'output_size' has 2 entries, got ", sizes.size()));
  return one(call.context().add(aten::_adaptive_avg_pool2d::op(),
                                {TensorRef{call.value("x")}, std::vector<Expr>{Expr(sizes[0]), Expr(sizes[1])}}));
}

constexpr auto kRows = std::to_array<RuleRow>({
    {"AdaptiveAvgPool2d", adaptive_average},
    {"MaxPoolWithArgmaxV3", max_pool_with_argmax},
});

}  // namespace

std::span<const RuleRow> pooling_rules() { return kRows; }

}  // namespace npugraph::ge
