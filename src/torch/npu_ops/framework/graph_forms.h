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
#include <vector>

#include "torch/npu/operators.h"

namespace npugraph::npu_ops {

// Defines the second forms of those of `schemas` that need one, and returns their names. The operators must be defined
// and have their kernels.
std::vector<npu::GraphForm> define_graph_forms(const std::string& name_space, const std::vector<const char*>& schemas);

}  // namespace npugraph::npu_ops
