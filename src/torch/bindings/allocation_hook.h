// SPDX-License-Identifier: Apache-2.0
// Counts what goes through torch's CPU allocator, by the operator of a compiled graph that asked.
//
//   allocations_start()
//   allocations_stop() -> list[tuple[str, int, int]]     # (operator, allocations, bytes), the most bytes first
//
// Allocations outside of any task (results, eager operators) stand under "". Thread-safe; while it counts, every allocation
// takes a lock.
#pragma once

#include <torch/extension.h>

namespace npugraph::bindings {

void init_allocation_hook(pybind11::module_& module);

}  // namespace npugraph::bindings
