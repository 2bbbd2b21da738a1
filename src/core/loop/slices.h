// SPDX-License-Identifier: Apache-2.0
// Kernels whose result can be computed in slices, wherever the caller wants to have them.
#pragma once

#include <optional>
#include <string_view>

#include "loop/kernel.h"

namespace npugraph::loop {

// The name of kernels that compute a factor of a matrix product, in the text of its task.
inline constexpr std::string_view kFactor = "factor";

// Iteration i of the parallel loop that a kernel consists of stores elements [i * each, (i + 1) * each) of its buffer
// `result`.
struct Slices {
  size_t result = 0;
  int64_t iterations = 0;
  int64_t each = 0;
  int64_t elements() const { return iterations * each; }
};

// The slices of a kernel that stores every element of a dense array once. Nullopt if it stores more than one array, has
// scalars, memory of its own or checks, or stores other elements in an iteration.
std::optional<Slices> find_slices(const Kernel& kernel);

}  // namespace npugraph::loop
