// SPDX-License-Identifier: Apache-2.0
// Which nodes become precompiled kernels.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace npugraph::lower {

// Whether the product a . b of f32 matrices [..., m, k] and [..., k, n] on cpu takes less time on one thread than it
// takes to start others.
bool is_small_product(const ir::TensorType& a, const ir::TensorType& b);

// A kernel and its arguments, whose TensorRefs are still values of the graph. The operands of the task are these
// references in order, then the results.
struct KernelChoice {
  std::string name;
  std::vector<Attr> args;
  bool is_elementwise = false;  // reads each element before it writes the same element of the result
  bool any_strides = true;      // writes results of any strides
  std::string schema;           // of a kernel of a user's library, which takes all arguments of its operator
};

// Returns nullopt if no kernel fits, or if the host's operator is expected to be faster: kernels are faster if the work
// costs less than a call through the host's dispatcher.
std::optional<KernelChoice> choose_kernel(const ir::Graph& graph, const ir::Node& node);
// The same for a node that the host cannot run: a kernel that moves, converts, makes, sorts or finds elements, or
// multiplies groups of rows, counts, too, however many there are.
std::optional<KernelChoice> choose_any_kernel(const ir::Graph& graph, const ir::Node& node);
// The kernel of a user's library. UserError if it has another schema than the operator.
std::optional<KernelChoice> choose_library_kernel(const ir::Node& node);

}  // namespace npugraph::lower
