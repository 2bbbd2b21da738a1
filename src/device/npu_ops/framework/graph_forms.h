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

#include <torch/library.h>

namespace npugraph::npu_ops {

// Defines the second form of `op`, which `schema` defined and which has its kernels, in `library`. Returns its name, or
// "" if the operator needs none. `library` must outlive all calls.
std::string define_graph_form(torch::Library& library, const char* schema, const c10::OperatorHandle& op);

}  // namespace npugraph::npu_ops
