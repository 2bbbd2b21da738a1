// SPDX-License-Identifier: Apache-2.0
// The type of concatenated tensors, for several rules. Internal to ops/.
#pragma once

#include <optional>
#include <vector>

#include "ops/row.h"

namespace npugraph::ops {

// Types of the tensors in list argument `i`; nullopt if one of them is no strided tensor, or the list is empty.
std::optional<std::vector<const ir::TensorType*>> tensor_list(const Call& call, size_t i);

// The result type of torch.cat; `dim` counts from the end if negative. nullopt if the answer is open. UserError that
// names the operator if the sizes do not fit.
std::optional<ir::TensorType> joined(const Call& call, const std::vector<const ir::TensorType*>& tensors, int64_t dim);

}  // namespace npugraph::ops
