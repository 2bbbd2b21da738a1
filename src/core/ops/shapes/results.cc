// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"
#include "tensor/shape.h"

namespace npugraph::ops::shapes {
namespace {

Types with_strides(const ir::TensorType& like, const std::vector<DType>& dtypes, const std::vector<Expr>& sizes,
                   const std::vector<Expr>& strides) {
  std::vector<ir::Type> types;
  for (const DType dtype : dtypes) types.emplace_back(ir::TensorType{dtype, sizes, strides, like.device});
  return types;
}

}  // namespace

bool runs_on_cpu(const Device& device) { return device.type == "cpu" || device.type == "npu"; }

ir::TensorType dense(DType dtype, std::vector<Expr> sizes, Device device) {
  auto strides = contiguous_strides(sizes);
  return {dtype, std::move(sizes), std::move(strides), std::move(device)};
}

Types contiguous(DType dtype, std::vector<Expr> sizes, Device device) {
  return std::vector<ir::Type>{dense(dtype, std::move(sizes), std::move(device))};
}

Types only(std::optional<ir::TensorType> type) {
  if (!type) return std::nullopt;
  return std::vector<ir::Type>{std::move(*type)};
}

Types both(std::optional<ir::TensorType> first, std::optional<ir::TensorType> second) {
  if (!first || !second) return std::nullopt;
  return std::vector<ir::Type>{std::move(*first), std::move(*second)};
}

Types like(const ir::TensorType& self, std::vector<Expr> sizes, std::optional<std::vector<Expr>> strides) {
  if (!strides) return std::nullopt;
  return only(ir::TensorType{self.dtype, std::move(sizes), std::move(*strides), self.device});
}

Types row_major(const ir::TensorType& like, const std::vector<DType>& dtypes, const Sizes& sizes) {
  return sizes ? with_strides(like, dtypes, *sizes, contiguous_strides(*sizes)) : std::nullopt;
}

Types in_suggested_format(const Call& call, const ir::TensorType& like, const std::vector<DType>& dtypes,
                          const Sizes& sizes) {
  const auto strides = sizes ? suggested_strides(call, like, *sizes) : std::nullopt;
  return strides ? with_strides(like, dtypes, *sizes, *strides) : std::nullopt;
}

std::optional<ir::TensorType> copied(const Call& call, size_t i, std::optional<DType> dtype) {
  const auto* tensor = call.tensor(i);
  auto strides = tensor == nullptr ? std::nullopt : preserved_strides(call, *tensor);
  if (!strides) return std::nullopt;
  return ir::TensorType{dtype.value_or(tensor->dtype), tensor->sizes, std::move(*strides), tensor->device};
}

Types created(const Call& call, std::optional<DType> dtype, std::vector<Expr> sizes) {
  const auto arg = call.find("dtype");
  if (const auto* asked = arg ? std::get_if<DType>(&call.args[*arg]) : nullptr) dtype = *asked;
  if (!dtype || named_or(call, "layout", Layout::kStrided) != Layout::kStrided) return std::nullopt;
  auto strides = format_strides(sizes, named_or(call, "memory_format", MemoryFormat::kContiguous));
  return like({.dtype = *dtype, .device = named_or(call, "device", Device{})}, std::move(sizes), std::move(strides));
}

Sizes broadcast_batch(const Call& call, const std::vector<Expr>& a, const std::vector<Expr>& b) {
  const ir::TensorType x{.sizes = {a.begin(), a.end() - 2}}, y{.sizes = {b.begin(), b.end() - 2}};
  return broadcast(call.op.name, {&x, &y});
}

bool is_asked_for(const Call& call, size_t i) {
  const auto* mask = std::get_if<std::vector<Expr>>(&call.args[*call.find("output_mask")]);
  return mask == nullptr || i >= mask->size() || !(*mask)[i].is_constant() || (*mask)[i].value().as_bool();
}

}  // namespace npugraph::ops::shapes
