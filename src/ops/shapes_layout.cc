// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "ir/bounds.h"
#include "ops/promote.h"
#include "ops/shapes.h"
#include "ops/strides.h"
#include "tensor/shape.h"

namespace npugraph::ops::shapes {
namespace {

template <typename T>
T named_or(const Call& call, std::string_view name, T otherwise) {
  const auto arg = call.find(name);
  const T* value = arg ? std::get_if<T>(&call.args[*arg]) : nullptr;
  return value == nullptr ? otherwise : *value;
}

Types fresh(DType dtype, std::vector<Expr> sizes, std::optional<std::vector<Expr>> strides, Device device) {
  if (!strides) return std::nullopt;
  return std::vector<ir::Type>{ir::TensorType{dtype, std::move(sizes), std::move(*strides), std::move(device)}};
}

// A copy of the first argument in another dtype, device and memory format.
Types copy_of_self(const Call& call) {
  const auto* self = call.tensor(0);
  if (self == nullptr || named_or(call, "layout", Layout::kStrided) != Layout::kStrided) return std::nullopt;
  const auto format = named_or(call, "memory_format", MemoryFormat::kPreserve);
  auto strides =
      format == MemoryFormat::kPreserve ? preserved_strides(call.graph, *self) : format_strides(self->sizes, format);
  return fresh(named_or(call, "dtype", self->dtype), self->sizes, std::move(strides),
               named_or(call, "device", self->device));
}

// What a creation operator is asked to make; nothing without an explicit dtype, which torch's default would give.
Types create(const Call& call, std::optional<DType> dtype, std::vector<Expr> sizes) {
  const auto arg = call.find("dtype");
  if (const auto* asked = arg ? std::get_if<DType>(&call.args[*arg]) : nullptr) dtype = *asked;
  if (!dtype || named_or(call, "layout", Layout::kStrided) != Layout::kStrided) return std::nullopt;
  auto strides = format_strides(sizes, named_or(call, "memory_format", MemoryFormat::kContiguous));
  return fresh(*dtype, std::move(sizes), std::move(strides), named_or(call, "device", Device{}));
}

// Tensors of one rank and element type.
std::optional<std::vector<const ir::TensorType*>> tensor_list(const Call& call, size_t i) {
  const auto* refs = std::get_if<std::vector<TensorRef>>(&call.args[i]);
  if (refs == nullptr || refs->empty()) return std::nullopt;
  std::vector<const ir::TensorType*> types;
  for (const TensorRef ref : *refs) {
    const auto* type =
        ref.id == TensorRef::kAbsent ? nullptr : std::get_if<ir::TensorType>(&call.graph.value(ref.id).type);
    if (type == nullptr) return std::nullopt;
    if (!types.empty() && (type->sizes.size() != types.front()->sizes.size() || type->dtype != types.front()->dtype))
      return std::nullopt;
    types.push_back(type);
  }
  return types;
}

bool is_contiguous(const ir::TensorType* type) { return npugraph::is_contiguous(type->sizes, type->strides); }

// Whether torch certainly takes the tensor to be in row-major order: only tensors of images and volumes may be channels last,
// which the stride of the last dimension shows.
bool suggests_contiguous(const ir::TensorType* type) {
  const size_t rank = type->sizes.size();
  if ((rank != 4 && rank != 5) || type->strides == contiguous_strides(type->sizes)) return true;
  const auto channels = type->sizes[1].as_int();
  const auto channel_stride = type->strides[1].as_int();
  const auto last_stride = type->strides.back().as_int();
  return channels && channel_stride && last_stride && *last_stride < *channels * *channel_stride;
}

}  // namespace

Types contiguous(DType dtype, std::vector<Expr> sizes, Device device) {
  auto strides = contiguous_strides(sizes);
  return fresh(dtype, std::move(sizes), std::move(strides), std::move(device));
}

Types clone(const Call& call) { return copy_of_self(call); }

Types to_copy(const Call& call) { return copy_of_self(call); }

Types like_self(const Call& call) {
  const auto* self = call.tensor(0);
  if (self == nullptr || !is_contiguous(self->sizes, self->strides)) return std::nullopt;
  return contiguous(self->dtype, self->sizes, self->device);
}

Types like_self_contiguous(const Call& call) {
  const auto* self = call.tensor(0);
  return self == nullptr ? std::nullopt : contiguous(self->dtype, self->sizes, self->device);
}

Types cat(const Call& call) {
  const auto types = tensor_list(call, 0);
  const auto dim = call.known_integer(1);
  if (!types || !dim || types->front()->sizes.empty()) return std::nullopt;
  // Channels last only where all operands are.
  if (!std::any_of(types->begin(), types->end(), suggests_contiguous)) return std::nullopt;
  auto sizes = types->front()->sizes;
  const auto index = normalise_dim(call, *dim, static_cast<int64_t>(sizes.size()));
  // A one-dimensional empty tensor fits every other, which this rule does not follow.
  sizes[index] = 0;
  for (const auto* type : *types) {
    if (type->sizes.size() == 1 && type->sizes.front().is_int(0)) return std::nullopt;
    sizes[index] = sizes[index] + type->sizes[index];
  }
  return contiguous(types->front()->dtype, std::move(sizes), types->front()->device);
}

Types stack(const Call& call) {
  const auto types = tensor_list(call, 0);
  const auto dim = call.known_integer(1);
  if (!types || !dim ||
      !std::all_of(types->begin(), types->end(), [](const auto* type) { return is_contiguous(type); })) {
    return std::nullopt;
  }
  auto sizes = types->front()->sizes;
  const auto index = normalise_dim(call, *dim, static_cast<int64_t>(sizes.size()) + 1);
  sizes.insert(sizes.begin() + index, Expr(static_cast<int64_t>(types->size())));
  return contiguous(types->front()->dtype, std::move(sizes), types->front()->device);
}

Types arange(const Call& call) {
  const auto number = [&](std::string_view name, int64_t otherwise) -> std::optional<Expr> {
    const auto arg = call.find(name);
    return arg ? call.integer(*arg) : std::optional<Expr>(otherwise);
  };
  const auto start = number("start", 0);
  const auto end = number("end", 0);
  const auto step = number("step", 1);
  if (!start || !end || !step || !step->as_int() || step->is_int(0)) return std::nullopt;
  const bool up = *step->as_int() > 0;
  const Expr distance = up ? *end - *start : *start - *end;
  if (!ir::is_nonnegative(distance, call.graph.symbols)) return std::nullopt;
  const Expr count = Expr::make(ExprOp::kCeilDiv, {distance, up ? *step : Expr(0) - *step});
  return create(call, DType::kI64, {count});
}

Types create(const Call& call) {
  auto sizes = call.integers(0);
  if (!sizes) return std::nullopt;
  std::optional<DType> dtype;
  const auto value = call.find("fill_value");
  if (const auto* e = value ? std::get_if<Expr>(&call.args[*value]) : nullptr) {
    if (e->kind() == ScalarKind::kBool) dtype = DType::kBool;
    if (e->kind() == ScalarKind::kInt) dtype = DType::kI64;
  }
  return create(call, dtype, std::move(*sizes));
}

Types create_scalar(const Call& call) { return create(call, std::nullopt, {}); }

Types create_strided(const Call& call) {
  const auto* self = call.tensor(0);
  const size_t first = call.op.schema.args[0].type == "Tensor" ? 1 : 0;
  auto sizes = call.integers(first);
  auto strides = call.integers(first + 1);
  const auto arg = call.find("dtype");
  const auto* asked = std::get_if<DType>(&call.args[*arg]);
  if (!sizes || !strides || (asked == nullptr && self == nullptr)) return std::nullopt;
  const Device device = named_or(call, "device", self != nullptr ? self->device : Device{});
  return fresh(asked != nullptr ? *asked : self->dtype, std::move(*sizes), std::move(strides), device);
}

Types create_new(const Call& call) {
  const auto* self = call.tensor(0);
  auto sizes = call.integers(1);
  if (self == nullptr || !sizes || named_or(call, "layout", Layout::kStrided) != Layout::kStrided) return std::nullopt;
  return contiguous(named_or(call, "dtype", self->dtype), std::move(*sizes), named_or(call, "device", self->device));
}

Types create_like(const Call& call) { return copy_of_self(call); }

}  // namespace npugraph::ops::shapes
