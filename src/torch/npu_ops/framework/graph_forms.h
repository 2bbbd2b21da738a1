// SPDX-License-Identifier: Apache-2.0
// torch makes a graph functional where its operators return nothing that they write: such results would be two names of one
// tensor. So operators that return what they write have a second form for graphs, which writes the same and returns nothing:
//
//   npu::npu_dtype_cast_(Tensor(a!) input, Tensor src) -> Tensor(a!)
//   npu::npu_dtype_cast__in_graphs(Tensor(a!) input, Tensor src) -> ()
//
// The argument `Tensor[] out` of overloads "out" is written, though their schemas do not say so; in the second form it is
// marked. Operators that come apart before they reach a graph (composite) need no second form.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace npugraph::npu_ops {

// Makes the second forms of those of `schemas`, which are defined and have their kernels.
void define_graph_forms(const std::string& name_space, const std::vector<const char*>& schemas);

// Names of operators with their overloads, and those of their second forms.
const std::vector<std::pair<std::string, std::string>>& graph_forms();

}  // namespace npugraph::npu_ops
