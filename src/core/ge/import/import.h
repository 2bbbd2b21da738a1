// SPDX-License-Identifier: Apache-2.0
// IR graph -> Graph. Each IR operator becomes nodes of the operator table by its rule (rules.h). Sizes stay symbolic:
// an unknown size of an input is a symbol. Where operators demand that unknown sizes are equal, they become one symbol,
// and the runtime then compares the sizes of a call. Shapes that the graph computes with tensors are followed as
// expressions and need no nodes.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "ge/import/dump.h"
#include "ge/model.h"
#include "ir/graph.h"
#include "tensor/attr.h"
#include "tensor/core_limits.h"

namespace npugraph::ge {

// The schema of an operator of the host by its name, "my_ops.scaled_add"; empty if the host cannot run it.
using HostSchemas = std::function<std::string(std::string_view name)>;

struct ImportOptions {
  HostSchemas host;  // without it, the host runs no operator of its own
  std::optional<Dump> dump;
  CoreLimits limits;  // of all operators
};

// Inputs are the operators of type Data and RefData in the order of their indices, outputs the inputs of NetOutput.
// Tensors lie on `device`. Constants refer to the bytes of `model`. The host runs operators that name one of its own
// and have no kernel in a library. Runs write the tensors that the dump chooses. UserError if the
// graph is not well formed; ir::OperatorRefused, which names the operator and the line of the user's program if the
// model has it, for an operator that nothing computes.
ir::Graph import_graph(const Model& model, const GraphDef& def, const Device& device,
                       const ImportOptions& options = {});

// The types of operators that a graph may have: those with a rule, those of shapes alone, inputs, constants and the
// end.
std::set<std::string_view> imported_types();

}  // namespace npugraph::ge
