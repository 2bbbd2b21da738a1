// SPDX-License-Identifier: Apache-2.0
// torch can make a graph functional only if its operators do not return what they write: such a result would be a
// second name of the same tensor. So operators that return what they write have a second form for graphs, which writes
// the same and returns nothing:
//
//   npu::npu_dtype_cast_(Tensor(a!) input, Tensor src) -> Tensor(a!)
//   npu::npu_dtype_cast__in_graphs(Tensor(a!) input, Tensor src) -> ()
//
// The argument `Tensor[] out` of overloads "out" is written, though their schemas do not say so; in the second form it
// is marked as written. Operators that are decomposed before they reach a graph (composite) need no second form.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace npugraph::npu_ops {

// Defines the second forms of those of `schemas` that need one. The operators must be defined and have their kernels.
void define_graph_forms(const std::string& name_space, const std::vector<const char*>& schemas);

// Pairs of an operator's name with its overload, and the name of its second form.
const std::vector<std::pair<std::string, std::string>>& graph_forms();

}  // namespace npugraph::npu_ops
