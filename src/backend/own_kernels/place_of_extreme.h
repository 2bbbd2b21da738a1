// SPDX-License-Identifier: Apache-2.0
// argmax and argmin of rows in memory by generated code. ATen compares one element at a time, which takes most of the
// time of choosing the next token from logits.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "loop/kernel.h"

namespace npugraph::own {

// The place of the first greatest (kMax) or least (kMin) element, or of the first NaN, of each row of a CPU tensor:
// [rows...] in int64, with `keepdim` [rows..., 1]. Nothing if the rows are not along its last dimension and contiguous,
// if there are so few elements that ATen is as fast, or if generated code does not compare elements of their type.
std::optional<at::Tensor> place_of_extreme(loop::Combine extreme, const at::Tensor& self, std::optional<int64_t> dim,
                                           bool keepdim);

}  // namespace npugraph::own
