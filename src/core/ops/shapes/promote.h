// SPDX-License-Identifier: Apache-2.0
// Type promotion as in torch: tensors with dimensions outrank tensors without, and those outrank numbers, unless an
// operand of lower rank is of a higher class (bool, integer, float, complex). Internal to ops/.
#pragma once

#include <optional>
#include <vector>

#include "ops/row.h"

namespace npugraph::ops {

// The type that both convert to; nullopt for pairs that torch does not promote.
std::optional<DType> promote(DType a, DType b);

// The type of the parts of complex numbers; other types stay as they are.
DType real_of(DType dtype);
// The complex type whose parts have this type, or nullopt.
std::optional<DType> complex_of(DType part);

// The common type of these arguments (tensors, numbers, None). Returns nullopt if it depends on torch's default dtype
// or on an argument that is no strided tensor.
std::optional<DType> result_type(const Call& call, const std::vector<size_t>& args);

// The common type of these tensors, at least one; nullopt for pairs that torch does not promote.
std::optional<DType> result_type(const std::vector<const ir::TensorType*>& tensors);

}  // namespace npugraph::ops
