// SPDX-License-Identifier: Apache-2.0
#include "ge/engine/compile.h"

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

const lower::OperatorCatalog& no_operators() {
  static const NoOperators none;
  return none;
}

compiler::CompileRequest default_request(const GraphDef& graph) {
  compiler::CompileRequest request;
  request.name = graph.name;
  request.generate = true;
  return request;
}

compiler::CompileResult compile_model(const Model& model, const compiler::CompileRequest& request,
                                      const Device& device) {
  if (model.graphs.empty()) throw UserError("the model has no graph");
  compiler::CompileHost host;
  host.catalog = &no_operators();
  return compiler::compile(import_graph(model, model.graphs.front(), device), request, host);
}

}  // namespace npugraph::ge
