// SPDX-License-Identifier: Apache-2.0
// Collectives between processes as tasks. One task begins a collective, on the process group that has the name at that
// time, and stores an object for the pending collective (under_way.h). The other task waits for that object.
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

// Replaces the name of each process group in the collectives of the Program by rename(name, ranks).
void rename_groups(program::Program& program,
                   const std::function<std::string(const std::string&, const std::vector<int64_t>&)>& rename);

}  // namespace npugraph::bridge
