// SPDX-License-Identifier: Apache-2.0
// Helpers of several rules: they build result types and read arguments. Internal to ops/.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ops/row.h"

namespace npugraph::ops::shapes {

using Sizes = std::optional<std::vector<Expr>>;

// Whether kernels of the CPU compute tensors of the device: those of npu lie in memory of this host.
bool runs_on_cpu(const Device& device);

// A row-major tensor.
ir::TensorType dense(DType dtype, std::vector<Expr> sizes, Device device);
// The same as the only result.
Types contiguous(DType dtype, std::vector<Expr> sizes, Device device);
// The type as the only result; nullopt without one.
Types only(std::optional<ir::TensorType> type);
// A tensor with the element type and on the device of `self` as the only result; nullopt without strides.
Types like(const ir::TensorType& self, std::vector<Expr> sizes, std::optional<std::vector<Expr>> strides);

// Both as the results; nullopt if one is missing.
Types both(std::optional<ir::TensorType> first, std::optional<ir::TensorType> second);

// Fresh tensors of `sizes` on the device of `like`, one for each element type: in row-major order, or in the memory
// format that torch suggests for `like`. Returns nullopt without sizes, or if symbols leave the format open.
Types row_major(const ir::TensorType& like, const std::vector<DType>& dtypes, const Sizes& sizes);
Types in_suggested_format(const Call& call, const ir::TensorType& like, const std::vector<DType>& dtypes,
                          const Sizes& sizes);

// A copy of argument `i` that keeps the memory order of its dimensions, in this dtype or its own. Returns nullopt if
// the argument is no strided tensor, or symbols leave the order open.
std::optional<ir::TensorType> copied(const Call& call, size_t i, std::optional<DType> dtype = std::nullopt);

// The result of a creation operator, in argument `dtype` if it is given, else in this dtype. Returns nullopt if neither
// is given, since torch then uses its default dtype.
Types created(const Call& call, std::optional<DType> dtype, std::vector<Expr> sizes);

// The broadcast of the leading sizes of two batches of matrices, [..., rows, columns].
Sizes broadcast_batch(const Call& call, const std::vector<Expr>& a, const std::vector<Expr>& b);

// The argument `name`, or `otherwise` if the operator has no such argument or it is None.
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
