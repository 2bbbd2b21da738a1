// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/error.h"
#include "ge/import/images.h"
#include "ge/import/results.h"
#include "ge/import/rules.h"
#include "ops/operators.h"

namespace npugraph::ge {

namespace {

// Each window has an element of the image: padding is at most half of what a window covers.
void refuse_wide_padding(const Call& call, const std::vector<Expr>& windows, const std::vector<Expr>& pads,
                         const std::vector<Expr>& dilations) {
  for (size_t d = 0; d < windows.size(); ++d) {
    const int64_t window = *windows[d].as_int(), pad = *pads[d].as_int(), dilation = *dilations[d].as_int();
    const __int128 covered = (static_cast<__int128>(window) - 1) * dilation + 1;
    if (pad > covered / 2)
      call.fail(cat("its padding is 0 to half of a window, got ", pad, " for a window of ", window));
  }
}

// Windows of height and width, in attributes of two entries.
std::vector<Operand> max_pool_with_argmax(const Call& call) {
  require_channels_first(call);
  const std::vector<Expr> windows = two_of(call, "ksize", 0, 2, 1), pads = two_of(call, "pads", 0, 2, 0),
                          dilations = two_of(call, "dilation", 0, 2, 1);
  refuse_wide_padding(call, windows, pads, dilations);
  Context& context = call.context();
  auto results = context.add_all(aten::max_pool2d_with_indices::op(),
                                 {TensorRef{call.value("x")}, windows, two_of(call, "strides", 0, 2, 1), pads,
                                  dilations, flag(call.attr_bool("ceil_mode"))});
  const std::optional<DType> places = call.output_type(1);
  if (places && *places != DType::kI64)
    results[1] = context.add(aten::_to_copy::op(), {TensorRef{results[1]}, *places});
  return all(results);
}

std::vector<Operand> adaptive_average(const Call& call) {
  return one(call.context().add(aten::_adaptive_avg_pool2d::op(),
                                {TensorRef{call.value("x")}, two_of(call, "output_size", 0, 2, 0)}));
}

// Windows of height and width. `exclusive`: elements outside of the image do not count.
std::vector<Operand> average_pool(const Call& call) {
  require_channels_first(call);
  if (call.attr_string("padding_mode") != "CALCULATED")
    call.fail("its attribute 'padding_mode' has to be 'CALCULATED'");
  if (call.attr_bool("global_pooling")) call.fail("its attribute 'global_pooling' has to be false");
  const std::vector<Expr> windows = height_and_width(call, "ksize", 1), padding = even_pads(call);
  refuse_wide_padding(call, windows, padding, {Expr(1), Expr(1)});
  const int64_t divisor = call.attr_int("divisor_override");
  return one(call.context().add(aten::avg_pool2d::op(),
                                {TensorRef{call.value("x")}, windows, height_and_width(call, "strides", 1), padding,
                                 flag(call.attr_bool("ceil_mode")), flag(!call.attr_bool("exclusive")),
                                 divisor == 0 ? Attr(None{}) : Attr(Expr(divisor))}));
}

constexpr auto kPoolingRules = std::to_array<RuleRow>({
    {"AdaptiveAvgPool2d", adaptive_average},
    {"AvgPoolV2", average_pool},
    {"MaxPoolWithArgmaxV3", max_pool_with_argmax},
});

}  // namespace

std::span<const RuleRow> pooling_rules() { return kPoolingRules; }

}  // namespace npugraph::ge
