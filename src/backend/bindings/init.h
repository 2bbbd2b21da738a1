// SPDX-License-Identifier: Apache-2.0
// The topics of npugraph._C, one function and one file each; module.cc calls them.
#pragma once

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

namespace npugraph::bindings {

namespace py = pybind11;

void init_expr(py::module_& module);
void init_fx_importer(py::module_& module);
void init_artifact(py::module_& module);
void init_capture_rules(py::module_& module);
void init_ge(py::module_& module);
void init_graph(py::module_& module);
void init_known_types(py::module_& module);
void init_libraries(py::module_& module);
void init_nested(py::module_& module);
void init_observe(py::module_& module);
void init_torch_counters(py::module_& module);
void init_weights(py::module_& module);

}  // namespace npugraph::bindings
