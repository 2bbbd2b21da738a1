// SPDX-License-Identifier: Apache-2.0
// Programs for processes without torch: whatever can be generated is, also where an operator of the host is faster.
#pragma once

#include "compiler/pipeline.h"
#include "ir/graph.h"
#include "program/program.h"

namespace npugraph::compiler {

// The Program of `imported` with generated code and precompiled kernels alone. UserError that names each operator that
// has neither, with its line and the reason.
program::Program compile_torch_free(ir::Graph imported, CompileRequest request, CompileHost host);
// UserError as above if a task of `program` runs on the host's objects.
void require_torch_free(const program::Program& program);

}  // namespace npugraph::compiler
