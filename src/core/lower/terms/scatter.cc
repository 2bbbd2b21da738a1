// SPDX-License-Identifier: Apache-2.0
#include "lower/terms/scatter.h"

#include "lower/generated/ramps.h"
#include "lower/terms/rule.h"

namespace npugraph::lower {

std::optional<Scatter> find_scatter(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = self_type(graph, node);
  const auto* index = tensor_type(graph, arg::index(node));
  const Attr* source = arg::src.find(node);
  if (source == nullptr) source = &arg::value(node);
  const auto* type = tensor_type(graph, *source);
  if (self == nullptr || index == nullptr || self->sizes.empty() || index->sizes.size() != self->sizes.size() ||
      (index->dtype != DType::kI64 && index->dtype != DType::kI32) || !is_real_element(self->dtype))
    return std::nullopt;
  const auto dim = dim_of(arg::dim(node), self->sizes.size());
  const auto number = ops::as_constant(*source);
  const bool fits = type != nullptr ? type->dtype == self->dtype && type->sizes.size() == self->sizes.size()
                                    : number && can_hold(self->dtype, *number);
  if (!dim || !fits) return std::nullopt;
  return Scatter{.dim = *dim,
                 .adds = ops::is_any<aten::scatter_add, aten::scatter_add_>(node),
                 .index = ops::as_value(arg::index(node)),
                 .source = ops::as_value(*source),
                 .number = number};
}

}  // namespace npugraph::lower
