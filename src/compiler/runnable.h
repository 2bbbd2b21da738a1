// SPDX-License-Identifier: Apache-2.0
// A planned Program and a request -> what runs it. The one way there, for Programs that were just compiled and for those from
// files.
#pragma once

#include <memory>

#include "compiler/generated_tasks.h"
#include "compiler/request.h"
#include "compiler/static_kernels.h"
#include "program/program.h"
#include "runtime/executable.h"

namespace npugraph::compiler {

struct Runnable {
  std::shared_ptr<StaticKernels> static_kernels;  // null where the request asks for none
  std::shared_ptr<runtime::Executable> executable;
};

// `make_task` makes the tasks for the sizes of one Instance, and those of the Program. Of the latter `generated` has some, which it
// gives away; it may be null. `host` must outlive what is made.
Runnable make_runnable(std::shared_ptr<const program::Program> program, runtime::Host& host, const RunRequest& request,
                       const runtime::MakeTask& make_task, GeneratedTasks* generated = nullptr);

}  // namespace npugraph::compiler
