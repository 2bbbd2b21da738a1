// SPDX-License-Identifier: Apache-2.0
// The topics of npugraph._C, one function each, and what they share. module.cc calls them, or the topic that they are
// part of.
#pragma once

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

namespace npugraph::bindings {

namespace py = pybind11;

void init_expr(py::module_& module);
void init_fx_importer(py::module_& module);
// allocations_start() and allocations_stop() -> list[tuple[str, int, int]] count the allocations of torch's CPU
// allocator by the operator of a compiled graph that made them: (operator, allocations, bytes), the most bytes first.
// Allocations outside of any task (results, eager operators) are counted under "". Thread-safe; while it counts, every
// allocation takes a lock.
void init_allocation_hook(py::module_& module);
void init_artifact(py::module_& module);
void init_ge(py::module_& module);
void init_graph(py::module_& module);
void init_libraries(py::module_& module);
void init_nested(py::module_& module);
void init_observe(py::module_& module);
void init_user_objects(py::module_& module);

// Puts a new view into torch's dictionary of counters if npugraph's is missing (observe.cc). Called under the GIL when
// a call or a compile starts.
void ensure_counters();

}  // namespace npugraph::bindings
