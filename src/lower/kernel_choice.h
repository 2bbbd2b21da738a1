// SPDX-License-Identifier: Apache-2.0
// Which nodes become precompiled kernels.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace npugraph::lower {

// Whether threads would take longer to start on the product a . b of f32, [..., m, k] and [..., k, n], than it takes without
// them.
bool is_small_product(const ir::TensorType& a, const ir::TensorType& b);

// The kernel and its arguments; TensorRefs are still values of the graph. Operands follow the order of the references, then
// the results.
struct KernelChoice {
  std::string name;
  std::vector<Attr> args;
  bool is_elementwise = false;  // reads each element before it writes the same element of the result
};

// Nothing when no kernel fits, or when the host's operator is expected to be faster: kernels win where the work is smaller
// than the cost of a call through the host's dispatcher.
std::optional<KernelChoice> choose_kernel(const ir::Graph& graph, const ir::Node& node);

}  // namespace npugraph::lower
