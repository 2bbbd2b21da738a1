// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ir/bounds.h"
#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"
#include "tensor/shape.h"

namespace npugraph::ops::shapes {
namespace {

// A copy of the first argument in another dtype, device and memory format.
Types copy_of_self(const Call& call) {
  const auto* self = call.tensor(0);
  if (self == nullptr || named_or(call, "layout", Layout::kStrided) != Layout::kStrided) return std::nullopt;
  const auto format = named_or(call, "memory_format", MemoryFormat::kPreserve);
  auto strides =
      format == MemoryFormat::kPreserve ? preserved_strides(call, *self) : format_strides(self->sizes, format);
  return like({.dtype = named_or(call, "dtype", self->dtype), .device = named_or(call, "device", self->device)},
              self->sizes, std::move(strides));
}

// The arguments of tril_indices and triu_indices.
struct Triangle {
  int64_t rows;
  int64_t columns;
  int64_t offset;
};

std::optional<Triangle> triangle_of(const Call& call) {
  const auto rows = call.known_integer(0);
  const auto columns = call.known_integer(1);
  const auto offset = call.known_integer(2);
  if (!rows || !columns || !offset) return std::nullopt;
  if (*rows < 0 || *columns < 0)
    throw UserError(npugraph::cat(call.op.name, ": ", *rows, " rows, ", *columns, " columns"));
  return Triangle{*rows, *columns, *offset};
}

// Number of elements of a matrix on or below diagonal `offset`.
int64_t elements_below(int64_t rows, int64_t columns, int64_t offset) {
  // Row k, counted from 1, holds clamp(k + offset, 0, columns) of them.
  const auto up_to = [&](int64_t last) {
    if (last <= 0) return int64_t{0};
    const int64_t growing = std::min(last, columns);
    return growing * (growing + 1) / 2 + (last - growing) * columns;
  };
  return up_to(rows + offset) - up_to(offset);
}

// Number of elements of arange between known numbers, which torch truncates if the result is integral. Returns nullopt
// if a number is not known.
std::optional<Expr> known_steps(const Call& call, DType dtype) {
  const auto number = [&](std::string_view name, double otherwise) -> std::optional<double> {
    const auto arg = call.find(name);
    if (!arg) return otherwise;
    const auto* e = std::get_if<Expr>(&call.args[*arg]);
    if (e == nullptr || !e->is_constant()) return std::nullopt;
    const double value = e->value().as_float();
    return is_integral(dtype) ? std::trunc(value) : value;
  };
  const auto start = number("start", 0);
  const auto end = number("end", 0);
  const auto step = number("step", 1);
  if (!start || !end || !step) return std::nullopt;
  const double count = std::ceil((*end - *start) / *step);
  if (!(count >= 0 && count < 1e15)) return std::nullopt;
  return Expr(static_cast<int64_t>(count));
}

}  // namespace

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

Types like_second_contiguous(const Call& call) {
  const auto* second = call.tensor(1);
  return second == nullptr ? std::nullopt : contiguous(second->dtype, second->sizes, second->device);
}

Types arange(const Call& call) {
  const auto number = [&](std::string_view name, int64_t otherwise) -> std::optional<Expr> {
    const auto arg = call.find(name);
    return arg ? call.integer(*arg) : std::optional<Expr>(otherwise);
  };
  const auto start = number("start", 0);
  const auto end = number("end", 0);
  const auto step = number("step", 1);
  if (!start || !end || !step) {
    const auto count = known_steps(call, named_or(call, "dtype", DType::kF32));
    return count ? created(call, std::nullopt, {*count}) : std::nullopt;
  }
  if (!step->as_int() || step->is_int(0)) return std::nullopt;
  const bool up = *step->as_int() > 0;
  const Expr distance = up ? *end - *start : *start - *end;
  if (!ir::is_nonnegative(distance, call.graph.symbols)) return std::nullopt;
  const Expr count = Expr::make(ExprOp::kCeilDiv, {distance, up ? *step : Expr(0) - *step});
  return created(call, DType::kI64, {count});
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
  return created(call, dtype, std::move(*sizes));
}

Types eye(const Call& call) {
  const auto rows = call.integer(0);
  const auto columns = call.op.schema.args[1].name == "m" ? call.integer(1) : rows;
  if (!rows || !columns) return std::nullopt;
  return created(call, std::nullopt, {*rows, *columns});
}

Types create_vector(const Call& call) {
  const auto steps = call.find("steps");
  const auto length = call.integer(steps ? *steps : 0);
  return length ? created(call, std::nullopt, {*length}) : std::nullopt;
}

Types create_permuted(const Call& call) {
  const auto sizes = call.integers(0);
  const auto order = call.known_integers(1);
  if (!sizes || !order) return std::nullopt;
  std::vector<int64_t> dims = *order;
  std::sort(dims.begin(), dims.end());
  for (size_t i = 0; i < std::max(dims.size(), sizes->size()); ++i) {
    if (i < dims.size() && i < sizes->size() && dims[i] == static_cast<int64_t>(i)) continue;
    throw UserError(
        npugraph::cat(call.op.name, ": the layout does not name each of ", sizes->size(), " dimensions once"));
  }
  std::vector<Expr> ordered;
  for (const int64_t dim : *order) ordered.push_back((*sizes)[dim]);
  const auto dense = contiguous_strides(ordered);
  std::vector<Expr> strides(sizes->size());
  for (size_t i = 0; i < strides.size(); ++i) strides[(*order)[i]] = dense[i];
  auto types = created(call, std::nullopt, *sizes);
  if (types) std::get<ir::TensorType>(types->front()).strides = std::move(strides);
  return types;
}

Types create_scalar(const Call& call) { return created(call, std::nullopt, {}); }

Types create_strided(const Call& call) {
  const auto* self = call.tensor(0);
  const size_t first = call.op.schema.args[0].type == "Tensor" ? 1 : 0;
  auto sizes = call.integers(first);
  auto strides = call.integers(first + 1);
  const auto arg = call.find("dtype");
  const auto* asked = std::get_if<DType>(&call.args[*arg]);
  if (!sizes || !strides || (asked == nullptr && self == nullptr)) return std::nullopt;
  const Device device = named_or(call, "device", self != nullptr ? self->device : Device{});
  return like({.dtype = asked != nullptr ? *asked : self->dtype, .device = device}, std::move(*sizes),
              std::move(strides));
}

Types create_new(const Call& call) {
  const auto* self = call.tensor(0);
  auto sizes = call.integers(1);
  if (self == nullptr || !sizes || named_or(call, "layout", Layout::kStrided) != Layout::kStrided) return std::nullopt;
  return contiguous(named_or(call, "dtype", self->dtype), std::move(*sizes), named_or(call, "device", self->device));
}

Types create_like(const Call& call) { return copy_of_self(call); }

Types lower_triangle(const Call& call) {
  const auto size = triangle_of(call);
  if (!size) return std::nullopt;
  return created(call, DType::kI64, {2, elements_below(size->rows, size->columns, size->offset)});
}

Types upper_triangle(const Call& call) {
  const auto size = triangle_of(call);
  if (!size) return std::nullopt;
  const int64_t below = elements_below(size->rows, size->columns, size->offset - 1);
  return created(call, DType::kI64, {2, size->rows * size->columns - below});
}

}  // namespace npugraph::ops::shapes
