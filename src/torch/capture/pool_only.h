// SPDX-License-Identifier: Apache-2.0
// Which Programs may run while the threads of torch stand by (WorkerPool::with_team), where loops of torch run in one
// thread.
#pragma once

#include "program/program.h"

namespace npugraph::capture {

// Whether tasks compute in the pool, or so little that one thread does it.
bool runs_in_pool_alone(const program::Program& program);

}  // namespace npugraph::capture
