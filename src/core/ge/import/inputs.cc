// SPDX-License-Identifier: Apache-2.0
#include "ge/import/inputs.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "ge/data_types.h"
#include "tensor/shape.h"

namespace npugraph::ge {

namespace {

constexpr std::array<std::pair<std::string_view, ir::InputKind>, 3> kKinds = {{
    {"parameter", ir::InputKind::kParameter},
    {"buffer", ir::InputKind::kBuffer},
    {"static", ir::InputKind::kStatic},
}};

// The expressions of a list attribute; nullopt if the descriptor has none. Their symbols become sizes of `context`.
std::optional<std::vector<Expr>> expressions(Context& context, const TensorDesc& desc, std::string_view name) {
  const auto* list = find_attr<ListValue>(desc.attrs, name);
  if (list == nullptr) return std::nullopt;
  std::vector<Expr> result;
  for (const std::string_view text : list->s) {
    try {
      result.push_back(context.parse_size(text));
    } catch (const UserError& error) {
      throw UserError(cat("its attribute '", name, "': ", error.what()));
    }
  }
  if (result.size() != desc.dims.size())
    throw UserError(
        cat("its attribute '", name, "' has ", result.size(), " entries for ", desc.dims.size(), " dimensions"));
  return result;
}

}  // namespace

std::string text_attr(const OpDef& op, std::string_view name) {
  const auto* text = find_attr<std::string_view>(op.attrs, name);
  return text == nullptr ? std::string() : std::string(*text);
}

DType element_type(const TensorDesc& desc) {
  const DataTypeRow* row = find_type(desc.dtype);
  if (row == nullptr || !row->dtype)
    throw UserError(cat("the engine does not compute with elements of ", type_text(desc.dtype)));
  return *row->dtype;
}

std::optional<std::vector<Expr>> stated_strides(Context& context, const TensorDesc& desc) {
  return expressions(context, desc, attr::kStrides);
}

SizeBounds stated_bounds(const GraphDef& def) {
  SizeBounds bounds;
  const auto* list = find_attr<ListValue>(def.attrs, attr::kRanges);
  if (list == nullptr) return bounds;
  if (list->i.size() != 2 * list->s.size())
    throw UserError(cat("the attribute '", attr::kRanges, "' of the graph has ", list->i.size(), " numbers for ",
                        list->s.size(), " names; it has two for each"));
  for (size_t s = 0; s < list->s.size(); ++s)
    bounds[std::string(list->s[s])] = {.min = list->i[2 * s], .max = list->i[2 * s + 1]};
  return bounds;
}

std::vector<Expr> sizes_of(Context& context, const TensorDesc& desc) {
  const auto stated = expressions(context, desc, attr::kSizes);
  std::vector<Expr> sizes;
  for (size_t d = 0; d < desc.dims.size(); ++d) {
    const int64_t size = desc.dims[d];
    if (size < -1) throw UserError(cat("a size is -1 or at least 0, got ", size));
    if (size != -1 && stated && !(*stated)[d].is_int(size))
      throw UserError(cat("size ", d, " is ", size, " and ", (*stated)[d].str()));
    sizes.push_back(size != -1 ? Expr(size) : stated ? (*stated)[d] : context.new_size());
  }
  return sizes;
}

ir::TensorType input_type(Context& context, const OpDef& op) {
  if (op.output_descs.size() != 1) throw UserError(cat("it has one output, got ", op.output_descs.size()));
  const TensorDesc& desc = op.output_descs.front();
  if (desc.has_unknown_rank()) throw UserError("its number of dimensions is not known");
  const bool is_on_host = desc.device_type == "CPU";
  ir::TensorType type{.dtype = element_type(desc),
                      .sizes = sizes_of(context, desc),
                      .strides = {},
                      .device = is_on_host ? Device{} : context.device()};
  type.strides = stated_strides(context, desc).value_or(contiguous_strides(type.sizes));
  return type;
}

ir::InputKind input_kind(const OpDef& op) {
  const std::string kind = text_attr(op, attr::kKind);
  const auto* known = std::ranges::find(kKinds, kind, &decltype(kKinds)::value_type::first);
  return known == kKinds.end() ? ir::InputKind::kUser : known->second;
}

}  // namespace npugraph::ge
