// SPDX-License-Identifier: Apache-2.0
// Models of GE in this process: npugraph._C.ge.
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compiler/artifact.h"
#include "ge/engine/compile.h"
#include "ge/import/import.h"
#include "ge/import/rules.h"
#include "ge/wire.h"
#include "torch/bindings/init.h"
#include "torch/bridge/convert.h"
#include "torch/bridge/task_makers.h"
#include "torch/bridge/torch_host.h"

namespace npugraph::bindings {

namespace {

using compiler::Artifact;
using compiler::CompileRequest;
using compiler::PhaseTime;

// The first graph of a serialised model for tensors of `device`. Everything becomes code of the engine: it has no
// operators of torch.
std::shared_ptr<Artifact> compile(const py::bytes& model_def, CompileRequest request, const c10::Device& device,
                                  const std::vector<std::pair<std::string, double>>& front_end) {
  auto bytes = std::make_shared<const std::string>(model_def);
  std::vector<PhaseTime> phases;
  for (const auto& [name, milliseconds] : front_end) phases.push_back({name, milliseconds});
  const py::gil_scoped_release release;
  const ge::Model model = ge::parse_model(std::as_bytes(std::span(*bytes)), bytes, "the serialised ModelDef");
  if (model.graphs.empty()) throw UserError("the serialised ModelDef has no graph");
  ir::Graph graph = run_phase(
      phases, "ge import", [&] { return ge::import_graph(model, model.graphs.front(), bridge::from_torch(device)); });
  request.generate = true;
  compiler::CompileHost host{
      .catalog = &ge::no_operators(), .evaluate = {}, .make_task = compiler::make_task, .facts = bridge::torch_facts()};
  return std::make_shared<Artifact>(std::move(graph), std::move(request), std::move(host),
                                    bridge::TorchHost::instance(), std::vector<compiler::Partition>{},
                                    std::move(phases));
}

}  // namespace

void init_ge(py::module_& module) {
  py::module_ ge = module.def_submodule("ge", "Models of Ascend's graph engine.");
  ge.def("compile", &compile, py::arg("model_def"), py::arg("request"), py::arg("device"), py::arg("front_end"));
  ge.def("ruled_types", &npugraph::ge::ruled_types);
}

}  // namespace npugraph::bindings
