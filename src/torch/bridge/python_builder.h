// SPDX-License-Identifier: Apache-2.0
// How TorchHost reaches the Python half without needing an interpreter to link: registering a callable brings it in.
#pragma once

#include "abi/task.h"
#include "program/program.h"

namespace npugraph::bridge {

using TaskBuilder = ng_task (*)(const program::Program&, const program::Task&);

// Thread-safe. Until the first call Python tasks cannot be built, and there is no callable for them either.
void set_python_builder(TaskBuilder builder);

}  // namespace npugraph::bridge
