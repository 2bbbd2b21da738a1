// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "ir/alias.h"
#include "ir/bounds.h"
#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"
#include "tensor/shape.h"

namespace npugraph::ops::shapes {
namespace {

// The arguments of a convolution, found by name. Lists have one number for each spatial dimension.
struct Convolution {
  const ir::TensorType* input = nullptr;
  const ir::TensorType* weight = nullptr;
  std::vector<Expr> stride, padding, dilation, output_padding;
  Expr groups;
  bool transposed = false;

  size_t rank() const { return input->sizes.size(); }
};

// A list argument; a single number stands for all spatial dimensions.
std::optional<std::vector<Expr>> integers_per_dim(const Call& call, std::string_view name, size_t count) {
  auto list = call.integers(*call.find(name));
  if (list && list->size() == 1) list->resize(count, list->front());
  if (list && list->size() != count) {
    throw UserError(
        npugraph::cat(call.op.name, ": ", name, " of ", list->size(), " numbers; ", count, " or 1 are needed"));
  }
  return list;
}

std::optional<Convolution> convolution_arguments(const Call& call) {
  Convolution conv;
  conv.input = call.tensor(*call.find("input"));
  conv.weight = call.tensor(*call.find("weight"));
  const auto transposed = call.boolean(*call.find("transposed"));
  const auto groups = call.integer(*call.find("groups"));
  if (conv.input == nullptr || conv.weight == nullptr || !transposed || !groups) return std::nullopt;
  const size_t rank = conv.rank();
  if (rank < 3 || rank > 5 || conv.weight->sizes.size() != rank) {
    throw UserError(npugraph::cat(call.op.name, ": an input of rank ", rank, " and a weight of rank ",
                                  conv.weight->sizes.size(), "; both must be of the same rank from 3 to 5"));
  }
  auto stride = integers_per_dim(call, "stride", rank - 2);
  auto padding = integers_per_dim(call, "padding", rank - 2);
  auto dilation = integers_per_dim(call, "dilation", rank - 2);
  auto output_padding = *transposed ? integers_per_dim(call, "output_padding", rank - 2) : std::vector<Expr>(rank - 2);
  if (!stride || !padding || !dilation || !output_padding) return std::nullopt;
  conv.stride = std::move(*stride);
  conv.padding = std::move(*padding);
  conv.dilation = std::move(*dilation);
  conv.output_padding = std::move(*output_padding);
  conv.groups = *groups;
  conv.transposed = *transposed;
  return conv;
}

std::vector<Expr> result_sizes(const Convolution& conv) {
  const bool is_empty = conv.input->sizes[1].is_int(0);
  const Expr channels = conv.transposed ? conv.weight->sizes[1] * conv.groups : conv.weight->sizes[0];
  std::vector<Expr> sizes = {conv.input->sizes[0], is_empty ? Expr(0) : channels};
  for (size_t i = 0; i + 2 < conv.rank(); ++i) {
    const Expr length = conv.input->sizes[i + 2];
    const Expr reach = conv.dilation[i] * (conv.weight->sizes[i + 2] - 1);
    const Expr padding = Expr(2) * conv.padding[i];
    sizes.push_back(conv.transposed
                        ? (length - 1) * conv.stride[i] - padding + reach + conv.output_padding[i] + 1
                        : Expr::make(ExprOp::kFloorDiv, {length + padding - reach - 1, conv.stride[i]}) + 1);
  }
  return sizes;
}

// Whether oneDNN computes a convolution of volumes; nullopt if that depends on the machine and its settings.
std::optional<bool> uses_onednn(const Convolution& conv, const std::vector<ir::Symbol>& symbols) {
  if (conv.input->dtype == DType::kBF16 || conv.input->dtype == DType::kF16) return std::nullopt;
  if (conv.input->dtype != DType::kF32) return false;
  for (size_t i = 0; conv.transposed && i < conv.stride.size(); ++i) {
    const auto padding = conv.output_padding[i].as_int(), stride = conv.stride[i].as_int();
    if (!padding || !stride) return std::nullopt;
    if (*padding >= *stride) return false;
  }
  const auto is_above = [&](const Expr& e, int64_t limit) { return ir::is_nonnegative(e - limit - 1, symbols); };
  const auto is_above_one = [&](const Expr& e) { return is_above(e, 1); };
  const auto& kernel = conv.weight->sizes;
  const bool is_certain = std::any_of(conv.stride.begin(), conv.stride.end(), is_above_one) ||
                          std::any_of(conv.dilation.begin(), conv.dilation.end(), is_above_one) ||
                          std::any_of(kernel.end() - 2, kernel.end(), is_above_one) ||
                          is_above(conv.input->sizes[0], 15);
  return is_certain ? std::optional(true) : std::nullopt;
}

// Whether a node of the graph defines a symbol of these sizes.
bool depends_on_results(const ir::Graph& graph, const std::vector<Expr>& sizes) {
  std::vector<std::string> names;
  for (const Expr& size : sizes) collect_symbols(size, names);
  const auto is_named = [&](const ir::SymbolDef& def) {
    return std::find(names.begin(), names.end(), def.symbol) != names.end();
  };
  return !names.empty() && std::any_of(graph.order().begin(), graph.order().end(), [&](ir::NodeId id) {
    const auto& defines = graph.node(id).defines;
    return std::any_of(defines.begin(), defines.end(), is_named);
  });
}

// The type of a signal as torch computes it: as an image of height 1.
ir::TensorType as_image(ir::TensorType type) {
  if (type.sizes.size() != 3) return type;
  type.strides.insert(type.strides.begin() + 2, type.sizes[2] * type.strides[2]);
  type.sizes.insert(type.sizes.begin() + 2, Expr(1));
  return type;
}

// The format of the result and of the gradients: channels last if the input or the weight is. Returns nullopt if it is
// open, or if FakeTensor does not know it.
std::optional<MemoryFormat> format_of(const Call& call, const Convolution& conv) {
  ir::TensorType input = *conv.input;
  if (conv.rank() == 3 && !is_contiguous(input.sizes, input.strides)) input.strides = contiguous_strides(input.sizes);
  bool is_open = false;
  auto format = MemoryFormat::kContiguous;
  for (const ir::TensorType& type : {as_image(input), as_image(*conv.weight)}) {
    const auto suggested = suggested_format(call, type.sizes, type.strides);
    is_open = is_open || !suggested;
    if (suggested && *suggested != MemoryFormat::kContiguous) format = *suggested;
  }
  if (format == MemoryFormat::kContiguous) return is_open ? std::nullopt : std::optional(format);
  if (conv.input->sizes[0].is_int(0) || conv.input->sizes[1].is_int(0)) return MemoryFormat::kContiguous;
  if (conv.input->device.type != "cpu" || depends_on_results(call.graph, conv.input->sizes) ||
      depends_on_results(call.graph, conv.weight->sizes)) {
    return std::nullopt;
  }
  const auto onednn = conv.rank() == 5 ? uses_onednn(conv, call.graph.symbols) : true;
  if (!onednn) return std::nullopt;
  return *onednn ? format : MemoryFormat::kContiguous;
}

ir::Type in_format(DType dtype, const std::vector<Expr>& sizes, MemoryFormat format, const Device& device) {
  ir::TensorType type{dtype, sizes, contiguous_strides(sizes), device};
  if (format != MemoryFormat::kContiguous) {
    type = as_image(std::move(type));
    type.strides = *format_strides(type.sizes, format);
    if (sizes.size() == 3) type.strides.erase(type.strides.begin() + 2);
    type.sizes = sizes;
  }
  return type;
}

}  // namespace

Types convolution(const Call& call) {
  const auto conv = convolution_arguments(call);
  const auto format = conv ? format_of(call, *conv) : std::nullopt;
  if (!format) return std::nullopt;
  return std::vector<ir::Type>{in_format(conv->input->dtype, result_sizes(*conv), *format, conv->input->device)};
}

Types convolution_backward(const Call& call) {
  const auto conv = convolution_arguments(call);
  const auto* grad = call.tensor(*call.find("grad_output"));
  const auto format = conv ? format_of(call, *conv) : std::nullopt;
  if (!format || grad == nullptr) return std::nullopt;
  // For an empty input, eager keeps the format of the weight, and FakeTensor does not.
  if (ir::is_empty(*conv->input) && !is_contiguous(conv->weight->sizes, conv->weight->strides)) return std::nullopt;
  std::vector<ir::Type> types(3, ir::OpaqueType{});
  if (is_asked_for(call, 0)) types[0] = in_format(grad->dtype, conv->input->sizes, *format, grad->device);
  if (is_asked_for(call, 1)) types[1] = in_format(grad->dtype, conv->weight->sizes, *format, grad->device);
  if (is_asked_for(call, 2)) {
    const auto bias = call.integers(*call.find("bias_sizes"));
    if (!bias) return std::nullopt;
    types[2] = dense(grad->dtype, *bias, grad->device);
  }
  return types;
}

}  // namespace npugraph::ops::shapes
