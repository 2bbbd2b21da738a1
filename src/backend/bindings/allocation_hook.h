// SPDX-License-Identifier: Apache-2.0
// Counts the allocations of torch's CPU allocator by the operator of a compiled graph that made them.
//
//   allocations_start()
//   allocations_stop() -> list[tuple[str, int, int]]     # (operator, allocations, bytes), the most bytes first
//
// Allocations outside of any task (results, eager operators) are counted under "". Thread-safe; while it counts, every
// allocation takes a lock.
#pragma once

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

namespace npugraph::bindings {

void init_allocation_hook(pybind11::module_& module);

}  // namespace npugraph::bindings
