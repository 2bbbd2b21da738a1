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

// Each window has an element of the image: padding is at most half of what a window covers.
void refuse_wide_padding(const Call& call, const std::vector<Expr>& windows, const std::vector<Expr>& pads,
                         const std::vector<Expr>& dilations) {
  for (size_t d = 0; d < windows.size(); ++d) {
    const int64_t window = *windows[d].as_int(), pad = *pads[d].as_int(), dilation = *dilations[d].as_int();
    const __int128 covered = (static_cast<__int128>(window) - 1) * dilation + 1;
    if (pad < 0 || pad > covered / 2)
      call.fail(cat("its padding is 0 to half of a window, got ", pad, " for a window of ", window));
  }
}

// Windows of height and width, in attributes of two entries.
std::vector<Operand> max_pool_with_argmax(const Call& call) {
  if (call.attr_string("data_format") != "NCHW") call.fail("its attribute 'data_format' has to be 'NCHW'");
  const std::vector<Expr> windows = pair(call, "ksize", 0, 1, 2), pads = pair(call, "pads", 0, 1, 2),
                          dilations = pair(call, "dilation", 0, 1, 2);
  refuse_wide_padding(call, windows, pads, dilations);
  Context& context = call.context();
  auto results = context.add_all(aten::max_pool2d_with_indices::op(),
                                 {TensorRef{call.value("x")}, windows, pair(call, "strides", 0, 1, 2), pads, dilations,
                                  flag(call.attr_bool("ceil_mode"))});
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

// Entries of height and width in an attribute of four entries in the order NCHW.
std::vector<Expr> height_and_width(const Call& call, std::string_view name) { return pair(call, name, 2, 3, 4); }

// Windows of height and width. `exclusive`: elements outside of the image do not count.
std::vector<Operand> average_pool(const Call& call) {
  if (call.attr_string("data_format") != "NCHW") call.fail("its attribute 'data_format' has to be 'NCHW'");
  if (call.attr_string("padding_mode") != "CALCULATED")
    call.fail("its attribute 'padding_mode' has to be 'CALCULATED'");
  if (call.attr_bool("global_pooling")) call.fail("its attribute 'global_pooling' has to be false");
  const std::vector<int64_t> pads = call.attr_ints("pads");
  if (pads.size() != 4 || pads[0] != pads[1] || pads[2] != pads[3])
    call.fail("its attribute 'pads' has 4 entries, the same at both sides of each dimension");
  const std::vector<Expr> windows = height_and_width(call, "ksize"), padding = {Expr(pads[0]), Expr(pads[2])};
  refuse_wide_padding(call, windows, padding, {Expr(1), Expr(1)});
  const int64_t divisor = call.attr_int("divisor_override");
  return one(call.context().add(aten::avg_pool2d::op(),
                                {TensorRef{call.value("x")}, windows, height_and_width(call, "strides"), padding,
                                 flag(call.attr_bool("ceil_mode")), flag(!call.attr_bool("exclusive")),
                                 divisor == 0 ? Attr(None{}) : Attr(Expr(divisor))}));
}

constexpr auto kRows = std::to_array<RuleRow>({
    {"AdaptiveAvgPool2d", adaptive_average},
    {"AvgPoolV2", average_pool},
    {"MaxPoolWithArgmaxV3", max_pool_with_argmax},
});

}  // namespace

std::span<const RuleRow> pooling_rules() { return kRows; }

}  // namespace npugraph::ge
