// SPDX-License-Identifier: Apache-2.0
// Models of GE in this process: npugraph._C.ge.
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/artifact.h"
#include "ge/engine/compile.h"
#include "ge/import/import.h"
#include "ge/wire.h"
#include "torch/bindings/init.h"
#include "torch/bridge/convert.h"
#include "torch/bridge/task_makers.h"
#include "torch/bridge/torch_host.h"

namespace npugraph::bindings {

namespace {

using compiler::Artifact;
using compiler::CompileRequest;

// The first graph of a serialised model for tensors of `device`. Everything becomes code of the engine: it has no
// operators of torch.
std::shared_ptr<Artifact> compile(const py::bytes& model_def, CompileRequest request, const c10::Device& device) {
  auto bytes = std::make_shared<const std::string>(model_def);
  const py::gil_scoped_release release;
  std::vector<compiler::PhaseTime> phases;
  ir::Graph graph = run_phase(phases, "ge import", [&] {
    const ge::Model model = ge::parse_model(std::as_bytes(std::span(*bytes)), bytes, "the serialised ModelDef");
    return ge::import_graph(model, ge::graph_of(model), bridge::from_torch(device));
  });
  request.generate = true;
  compiler::CompileHost host = ge::host_without_operators();
  host.facts = bridge::torch_facts();
  return std::make_shared<Artifact>(std::move(graph), std::move(request), std::move(host),
                                    bridge::TorchHost::instance(), std::vector<compiler::Partition>{},
                                    std::move(phases));
}

}  // namespace

void init_ge(py::module_& module) {
  py::module_ ge = module.def_submodule("ge", "Models of Ascend's graph engine.");
  ge.def("compile", &compile, py::arg("model_def"), py::arg("request"), py::arg("device"));
}

}  // namespace npugraph::bindings
