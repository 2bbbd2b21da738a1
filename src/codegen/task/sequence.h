// SPDX-License-Identifier: Apache-2.0
// Several tasks as one, which runs them one after the other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "abi/task.h"

namespace npugraph::codegen {

// A task of a sequence, and how many buffers and scalars of the call it takes. Those of all parts follow each other.
struct SequencePart {
  ng_task task;
  uint32_t buffers = 0;
  uint32_t scalars = 0;
  std::string label;  // names it in errors
};

// Each part begins after the previous one is done in all threads. A part that fails ends the sequence, and the error
// message names it. No part may define symbols or allocate results. If `workers` is not 0, at most that many threads
// take part. The sequence owns the tasks.
ng_task make_sequence(std::vector<SequencePart> parts, int64_t workers = 0);

}  // namespace npugraph::codegen
