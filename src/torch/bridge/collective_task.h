// SPDX-License-Identifier: Apache-2.0
// Collectives between processes as tasks. One begins a collective, on the process group that has the name now, and leaves an
// object that stands for what is under way (under_way.h); the other one waits for that.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "abi/task.h"
#include "program/program.h"

namespace npugraph::bridge {

// UserError for a collective that does not exist.
ng_task build_collective_task(const program::Program& program, const program::Task& task);

// Gives each group that collectives of the Program name the name that `rename` says, of its name and ranks.
void rename_groups(program::Program& program,
                   const std::function<std::string(const std::string&, const std::vector<int64_t>&)>& rename);

}  // namespace npugraph::bridge
