// SPDX-License-Identifier: Apache-2.0
// Several tasks as one, which runs them one after the other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "abi/task.h"

namespace npugraph::codegen {

// A task of a sequence, and how much of the call is its: operands and scalars stand one after the other.
struct SequencePart {
  ng_task task;
  uint32_t buffers = 0;
  uint32_t scalars = 0;
  std::string label;  // names it in errors
};

// Each part begins when the one before it is done, in all threads. One that fails ends the sequence, and its message names it.
// No part defines symbols or allocates results. At most `workers` threads take part, where that is not 0. Owns the tasks.
ng_task make_sequence(std::vector<SequencePart> parts, int64_t workers = 0);

}  // namespace npugraph::codegen
