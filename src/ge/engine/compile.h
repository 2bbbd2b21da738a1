// SPDX-License-Identifier: Apache-2.0
// Compiles models for a host without operators: all tasks are generated code or precompiled kernels.
#pragma once

#include "compiler/pipeline.h"
#include "ge/model.h"

namespace npugraph::ge {

// A host that runs no operator.
compiler::CompileHost host_without_operators();

// The first graph of a model. UserError if it has none.
const GraphDef& graph_of(const Model& model);

// Compiles the first graph of a model for tensors in the host's memory. UserError as in import_graph(), and for an
// operator that cannot become generated code.
compiler::CompileResult compile_model(const Model& model);

}  // namespace npugraph::ge
