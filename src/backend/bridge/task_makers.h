// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "abi/task.h"
#include "backend/own_kernels/export.h"
#include "program/program.h"

namespace npugraph::bridge {

// Makes tasks of every kind: operators, Python callables, collectives and control flow, besides those of
// compiler::task_makers(). A runtime::MakeTask. Thread-safe.
NPUGRAPH_EXPORT ng_task make_task(const program::Program& program, const program::Task& task);

}  // namespace npugraph::bridge
