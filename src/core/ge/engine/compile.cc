// SPDX-License-Identifier: Apache-2.0
#include "ge/engine/compile.h"

#include <utility>

#include "base/error.h"
#include "ge/import/import.h"

namespace npugraph::ge {

namespace {

class NoOperators final : public lower::OperatorCatalog {
 public:
  std::optional<lower::OutVariant> out_variant(const ir::Op&) const override { return std::nullopt; }
  bool can_run(const ir::Op&) const override { return false; }
};

}  // namespace

compiler::CompileHost host_without_operators() {
  static const NoOperators none;
  compiler::CompileHost host;
  host.catalog = &none;
  return host;
}

const GraphDef& graph_of(const Model& model) {
  if (model.graphs.empty()) throw UserError("the model has no graph");
  return model.graphs.front();
}

compiler::CompileResult compile_imported(ir::Graph graph, const EngineOptions& options) {
  compiler::CompileRequest request;
  request.name = graph.name;
  request.generate = true;
  request.super_kernels.merges = true;
  apply_levels(options, request);
  return compiler::compile(std::move(graph), request, host_without_operators());
}

compiler::CompileResult compile_model(const Model& model) {
  return compile_imported(import_graph(model, graph_of(model), Device{}));
}

}  // namespace npugraph::ge
