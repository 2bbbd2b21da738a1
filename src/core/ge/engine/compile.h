// SPDX-License-Identifier: Apache-2.0
// Compiles models for a host without operators: all tasks are generated code or precompiled kernels.
#pragma once

#include "compiler/pipeline.h"
#include "ge/engine/options.h"
#include "ge/model.h"
#include "ir/graph.h"

namespace npugraph::ge {

// A host that runs no operator.
compiler::CompileHost host_without_operators();

// The first graph of a model. UserError if it has none.
const GraphDef& graph_of(const Model& model);

// Compiles an imported graph at the levels that the options say. UserError for an operator that cannot become generated
// code.
compiler::CompileResult compile_imported(ir::Graph graph, const EngineOptions& options = {});

// Imports and compiles the first graph of a model for tensors in the host's memory. UserError as in import_graph() and
// above.
compiler::CompileResult compile_model(const Model& model);

}  // namespace npugraph::ge
