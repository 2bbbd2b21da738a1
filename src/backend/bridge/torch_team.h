// SPDX-License-Identifier: Apache-2.0
// The threads on which torch's operators run.
#pragma once

#include "runtime/threads/worker_pool.h"

namespace npugraph::bridge {

// The OpenMP threads of the loaded torch; empty if torch was built without OpenMP. Each
// calling thread has a team of its own, as in torch.
runtime::Team torch_team();

}  // namespace npugraph::bridge
