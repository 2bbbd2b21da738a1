// SPDX-License-Identifier: Apache-2.0
// Inputs that a graph does not read in the caller's memory (option clone_input): they are copied into memory of the
// graph at every run or, with clone_input=False, over the tensor of the first call if the caller passes another one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/instance/blueprint.h"

namespace npugraph::runtime {

struct StagingRule {
  bool over_first = false;      // clone_input=False
  std::vector<int32_t> inputs;  // indices of inputs of the Program
};

// Selects the inputs that tasks read, that are not parameters, that no task writes and that are in no result. Inputs
// whose storage the Program addresses beyond the tensor are left out. No inputs if the option is not set.
StagingRule staging_rule(const Blueprint& blueprint, std::optional<bool> clone_input);

// Copies elements. Both sides have the same sizes and strides and do not overlap.
void copy_elements(void* to, const void* from, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                   int64_t item_bytes);

}  // namespace npugraph::runtime
