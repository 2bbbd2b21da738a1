// SPDX-License-Identifier: Apache-2.0
// Programs that tasks of another Program run (backend/bridge/nested_task.h).
#include <string>
#include <tuple>
#include <vector>

#include "backend/bindings/init.h"
#include "backend/bridge/nested_task.h"
#include "base/error.h"
#include "compiler/artifact.h"

namespace npugraph::bindings {

namespace {

using bridge::NestedPlace;
using bridge::NestedPrograms;

NestedPrograms::Kind kind_named(const std::string& name) {
  if (name == "cond") return NestedPrograms::Kind::kCond;
  if (name == "while_loop") return NestedPrograms::Kind::kWhileLoop;
  if (name == "scan") return NestedPrograms::Kind::kScan;
  throw UserError(cat("unknown control flow \"", name, "\"; cond, while_loop and scan exist"));
}

// ("tensor", index), ("scalar", index) or ("constant", number).
NestedPlace place_of(const py::tuple& described) {
  const auto kind = described[0].cast<std::string>();
  if (kind == "tensor") return {.kind = NestedPlace::Kind::kTensor, .index = described[1].cast<int32_t>()};
  if (kind == "scalar") return {.kind = NestedPlace::Kind::kScalar, .index = described[1].cast<int32_t>()};
  NestedPlace place;
  if (PyFloat_Check(py::object(described[1]).ptr())) {
    place.constant.f = described[1].cast<double>();
  } else {
    place.constant.i = described[1].cast<int64_t>();
  }
  return place;
}

using Part = std::tuple<std::shared_ptr<compiler::Artifact>, std::vector<py::tuple>>;

void register_nested(int32_t callable, const std::string& kind, const std::vector<Part>& parts,
                     const py::tuple& predicate, int32_t carried, int32_t sliced, bool keeps_turns) {
  NestedPrograms programs{.kind = kind_named(kind),
                          .parts = {},
                          .predicate = place_of(predicate),
                          .carried = carried,
                          .sliced = sliced,
                          .keeps_turns = keeps_turns};
  for (const auto& [artifact, inputs] : parts) {
    NestedPrograms::Part& part = programs.parts.emplace_back();
    part.executable = artifact->executable();
    for (const py::tuple& input : inputs) part.inputs.push_back(place_of(input));
  }
  bridge::register_nested(callable, std::move(programs));
}

}  // namespace

void init_nested(py::module_& module) {
  module.def("register_nested", &register_nested, py::arg("callable"), py::arg("kind"), py::kw_only(), py::arg("parts"),
             py::arg("predicate"), py::arg("carried"), py::arg("sliced"), py::arg("keeps_turns"));
}

}  // namespace npugraph::bindings
