// SPDX-License-Identifier: Apache-2.0
// The table of the operators of Ascend's namespaces "npu" and "atb". It is empty until npugraph._ascend, the module with
// the operators, has registered them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "torch/npu/export.h"

namespace npugraph::npu {

// Facts about one operator, for documentation and for compiled graphs.
struct Operator {
  std::string name;  // "npu::npu_rms_norm", "npu::npu_slice.out"
  std::string definition;
  bool has_kernel = false;
  bool has_meta = false;
  bool is_composed = false;
  bool is_composite = false;
  bool is_on_npu_alone = false;         // calls on cpu tensors fail
  std::vector<std::string> whole_with;  // a composed operator is computed in calls with one of these arguments
};

// An operator's name with its overload, and the name of its second form (npu_ops/framework/graph_forms.h).
using GraphForm = std::pair<std::string, std::string>;

// Adds the operators of one namespace.
NPUGRAPH_EXPORT void declare_operators(std::vector<Operator> rows, std::vector<GraphForm> forms);

NPUGRAPH_EXPORT const std::vector<Operator>& operators();  // ordered by name
const std::vector<GraphForm>& graph_forms();

}  // namespace npugraph::npu
