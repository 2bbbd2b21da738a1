// SPDX-License-Identifier: Apache-2.0
// Makes the Executable of a planned Program, for Programs that were just compiled and for Programs from files.
#pragma once

#include <memory>

#include "compiler/generated_tasks.h"
#include "compiler/request.h"
#include "compiler/static_kernels.h"
#include "program/program.h"
#include "runtime/executable.h"

namespace npugraph::compiler {

struct Runnable {
  std::shared_ptr<StaticKernels> static_kernels;  // null if the request asks for none
  std::shared_ptr<runtime::Executable> executable;
};

// `make_task` makes the tasks of the Program and the static kernels of its Instances. If `generated` is not null, the
// generated tasks of the Program are taken from it instead. `host` must outlive the Runnable.
Runnable make_runnable(std::shared_ptr<const program::Program> program, runtime::Host& host, const RunRequest& request,
                       const runtime::MakeTask& make_task, GeneratedTasks* generated = nullptr);

}  // namespace npugraph::compiler
