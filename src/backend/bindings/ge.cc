// SPDX-License-Identifier: Apache-2.0
// Models of GE in this process: npugraph._C.ge.
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/bindings/init.h"
#include "backend/bridge/convert.h"
#include "backend/bridge/task_makers.h"
#include "backend/bridge/torch_host.h"
#include "compiler/artifact.h"
#include "ge/engine/compile.h"
#include "ge/import/import.h"
#include "ge/ir/registry.h"
#include "ge/wire.h"
#include "tensor/format.h"

namespace npugraph::bindings {

namespace {

using compiler::Artifact;
using compiler::CompileRequest;

// The operators of torch that a graph of GE may name: those of users and of Ascend. All others become code of the
// engine.
class ForeignOperators final : public lower::OperatorCatalog {
 public:
  std::optional<lower::OutVariant> out_variant(const ir::Op&) const override { return std::nullopt; }
  bool can_run(const ir::Op& op) const override {
    return (op.id < 0 || op.is(ir::Trait::kForeign)) && bridge::aten_catalog().can_run(op);
  }
};

std::string schema_of_torch(std::string_view name) {
  const auto op = bridge::find_operator(name);
  return op ? c10::toString(op->schema()) : "";
}

// The first graph of a serialised model for tensors of `device`.
std::shared_ptr<Artifact> compile_model(const py::bytes& model_def, CompileRequest request, const c10::Device& device) {
  auto bytes = std::make_shared<const std::string>(model_def);
  const py::gil_scoped_release release;
  std::vector<compiler::PhaseTime> phases;
  ir::Graph graph = run_phase(phases, "ge import", [&] {
    const ge::Model model = ge::parse_model(std::as_bytes(std::span(*bytes)), bytes, "the serialised ModelDef");
    return ge::import_graph(model, ge::graph_of(model), bridge::from_torch(device), schema_of_torch);
  });
  request.generate = true;
  request.super_kernels.merges = true;
  static const ForeignOperators operators;
  const compiler::CompileHost host{
      .catalog = &operators, .make_task = bridge::make_task, .facts = bridge::torch_facts()};
  return std::make_shared<Artifact>(std::move(graph), std::move(request), host, bridge::TorchHost::instance(),
                                    std::vector<compiler::Partition>{}, std::move(phases));
}

constexpr const char* arity_name(ge::Arity arity) {
  constexpr const char* kNames[] = {"required", "optional", "dynamic"};
  return kNames[static_cast<size_t>(arity)];
}

// None, or (inputs, outputs, attributes, text) of an operator of Ascend IR.
py::object find_operator(const std::string& name) {
  const ge::IrOperator* op = ge::find_operator(name);
  if (op == nullptr) return py::none();
  const auto tensors = [](const std::vector<ge::IrTensor>& all) {
    py::list list;
    for (const ge::IrTensor& tensor : all)
      list.append(py::make_tuple(tensor.name, arity_name(tensor.arity), tensor.types));
    return list;
  };
  py::list attributes;
  for (const ge::IrAttr& attr : op->attrs)
    attributes.append(py::make_tuple(attr.name, ge::name_of(attr.kind), attr.required, attr.default_text));
  return py::make_tuple(tensors(op->inputs), tensors(op->outputs), attributes, op->text);
}

}  // namespace

void init_ge(py::module_& module) {
  py::module_ ge = module.def_submodule("ge", "Models of Ascend's graph engine.");
  py::list formats;
  for (const Format& row : kFormats) formats.append(py::make_tuple(row.name, row.code));
  ge.attr("FORMATS") = formats;
  ge.def("compile", &compile_model, py::arg("model_def"), py::arg("request"), py::arg("device"));
  ge.def("find_operator", &find_operator, py::arg("name"));
  ge.def("add_operator", &ge::add_operator, py::arg("line"));
  ge.def("operator_names", &ge::operator_names);
  ge.def("imported_types", &ge::imported_types);
}

}  // namespace npugraph::bindings
