// SPDX-License-Identifier: Apache-2.0
// The topics of npugraph._ascend, one function and one file each; module.cc calls them.
#pragma once

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

namespace npugraph::bindings {

namespace py = pybind11;

void init_device(py::module_& module);
void init_graphs(py::module_& module);

}  // namespace npugraph::bindings
