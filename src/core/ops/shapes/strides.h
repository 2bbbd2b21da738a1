// SPDX-License-Identifier: Apache-2.0
// Sizes and strides of fresh results, as eager makes them. Internal to ops/.
#pragma once

#include <optional>
#include <vector>

#include "ops/row.h"

namespace npugraph::ops {

// Broadcast of all sizes; nullopt if symbols leave it open, UserError (with `name`) if they do not fit.
std::optional<std::vector<Expr>> broadcast(std::string_view name, const std::vector<const ir::TensorType*>& operands);

// Strides of a tensor that is broadcast to `sizes`: 0 where its elements repeat.
std::vector<Expr> broadcast_strides(const ir::TensorType& type, const std::vector<Expr>& sizes);

// Strides that TensorIterator gives a fresh output of `sizes` for these operands, in their order. If symbols leave
// them open, call.open_strides says what is returned; so do the functions below.
std::optional<std::vector<Expr>> elementwise_strides(const Call& call, const std::vector<Expr>& sizes,
                                                     const std::vector<const ir::TensorType*>& operands);

// Strides of a copy in memory_format.preserve: those of a dense original, otherwise dense ones in the same order.
std::optional<std::vector<Expr>> preserved_strides(const Call& call, const ir::TensorType& type);

// Strides of a fresh tensor in a given memory format; nullopt for a rank that the format does not have.
std::optional<std::vector<Expr>> format_strides(const std::vector<Expr>& sizes, MemoryFormat format);

// Strides of a dense tensor whose dimensions lie in this order in memory, the innermost first.
std::vector<Expr> dense_strides(const std::vector<Expr>& sizes, const std::vector<size_t>& order);

// The memory format that torch derives from the strides (suggest_memory_format): one of the channels-last ones, or
// contiguous. Returns nullopt if symbols leave it open.
std::optional<MemoryFormat> suggested_format(const Call& call, const std::vector<Expr>& sizes,
                                             const std::vector<Expr>& strides);

// Strides of a fresh tensor of `sizes`, which have the rank of `type`, in the format that torch suggests for `type`.
std::optional<std::vector<Expr>> suggested_strides(const Call& call, const ir::TensorType& type,
                                                   const std::vector<Expr>& sizes);

// -1, 0 or 1 if `a` is below, equal to or above `b`; nullopt if symbols leave it open.
std::optional<int> order_of(Expr a, Expr b, const std::vector<ir::Symbol>& symbols);

}  // namespace npugraph::ops
