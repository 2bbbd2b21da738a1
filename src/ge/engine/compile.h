// SPDX-License-Identifier: Apache-2.0
// Compiles models for a host without operators: all tasks are generated code or precompiled kernels.
#pragma once

#include "compiler/pipeline.h"
#include "compiler/request.h"
#include "ge/model.h"
#include "tensor/attr.h"

namespace npugraph::ge {

// A host that runs no operator.
const lower::OperatorCatalog& no_operators();

// The options with which models are compiled.
compiler::CompileRequest default_request(const GraphDef& graph);

// Compiles the first graph of the model. UserError if the model has none, as in import_graph(), and for an operator that
// cannot become generated code.
compiler::CompileResult compile_model(const Model& model, const compiler::CompileRequest& request,
                                      const Device& device);

}  // namespace npugraph::ge
