// SPDX-License-Identifier: Apache-2.0
// Several tasks as one, which runs them one after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "abi/task.h"
#include "codegen/task/part.h"

namespace npugraph::codegen {

// Each part begins after the previous one is done in all threads. A part that fails ends the sequence, and the error
// message names it. No part may define symbols or allocate results. If `workers` is not 0, at most that many threads
// take part. The sequence owns the tasks.
ng_task make_sequence(std::vector<Part> parts, int64_t workers = 0);

// A run of such a sequence. Its workspace is that of the part that needs most.
ng_status run_in_turn(const Parts& parts, const PartStates& states, int64_t workers, const ng_call& call);

}  // namespace npugraph::codegen
