// SPDX-License-Identifier: Apache-2.0
// What several rules make of their answers, and read of their arguments. Internal to ops/.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ops/row.h"

namespace npugraph::ops::shapes {

using Sizes = std::optional<std::vector<Expr>>;

// A row-major tensor.
ir::TensorType dense(DType dtype, std::vector<Expr> sizes, Device device);
// The same as the only result.
Types contiguous(DType dtype, std::vector<Expr> sizes, Device device);
// The type as the only result; nothing without one.
Types only(std::optional<ir::TensorType> type);
// A tensor with the element type and on the device of `self` as the only result; nothing without strides.
Types like(const ir::TensorType& self, std::vector<Expr> sizes, std::optional<std::vector<Expr>> strides);

// Both as the results; nothing where one is missing.
Types both(std::optional<ir::TensorType> first, std::optional<ir::TensorType> second);

// Fresh tensors of `sizes` on the device of `like`, one for each element type: in row-major order, or in the memory format that
// torch reads from `like`. Nothing without sizes, or where symbols leave the format open.
Types row_major(const ir::TensorType& like, const std::vector<DType>& dtypes, const Sizes& sizes);
Types in_suggested_format(const Call& call, const ir::TensorType& like, const std::vector<DType>& dtypes,
                          const Sizes& sizes);

// A copy of argument `i` that keeps the order of its dimensions, in this dtype or its own. Nothing where it is no strided tensor, or
// symbols leave the order open.
std::optional<ir::TensorType> copied(const Call& call, size_t i, std::optional<DType> dtype = std::nullopt);

// What a creation operator is asked to make; nothing without an explicit dtype, which torch's default would give.
Types created(const Call& call, std::optional<DType> dtype, std::vector<Expr> sizes);

// Sizes of matrices, [..., rows, columns]: the leading ones of both, broadcast.
Sizes broadcast_batch(const Call& call, const std::vector<Expr>& a, const std::vector<Expr>& b);

// The argument `name`, or `otherwise` where the operator has no such argument or it is none.
template <typename T>
T named_or(const Call& call, std::string_view name, T otherwise) {
  const auto arg = call.find(name);
  const T* value = arg ? std::get_if<T>(&call.args[*arg]) : nullptr;
  return value == nullptr ? otherwise : *value;
}
// Whether the flag `name`, which the operator has, is known to be set.
inline bool is_set(const Call& call, std::string_view name) { return call.boolean(*call.find(name)).value_or(false); }
// Whether element `i` of argument `output_mask` asks for a result.
bool is_asked_for(const Call& call, size_t i);

}  // namespace npugraph::ops::shapes
