// SPDX-License-Identifier: Apache-2.0
// Which Programs may run while the threads of torch stand by (WorkerPool::with_team), where loops of torch run in one
// thread.
#pragma once

#include <cstdint>
#include <span>

#include "program/program.h"

namespace npugraph::capture {

// Whether tasks compute in the pool, or so little that one thread does it. `bytes` are those of each buffer,
// INT64_MAX where they are not known; it may be empty if all sizes are constant.
bool runs_in_pool_alone(const program::Program& program, std::span<const int64_t> bytes = {});

}  // namespace npugraph::capture
