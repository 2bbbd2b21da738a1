// SPDX-License-Identifier: Apache-2.0
// Inputs that a graph does not read where the caller has them, because the user said so (option clone_input): copied into memory
// of the graph at every run, or, wherever another tensor comes, over the tensor of the first call.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/instance/blueprint.h"

namespace npugraph::runtime {

struct StagingRule {
  bool over_first = false;      // clone_input=False
  std::vector<int32_t> inputs;  // of the Program
};

// The user's inputs: no parameter, written by no task, in no result. Not those either of which tasks read more than the tensor.
// Nothing when the option is not set.
StagingRule staging_rule(const Blueprint& blueprint, std::optional<bool> clone_input);

// Elements of one size and of the same strides on both sides, which do not overlap.
void copy_elements(void* to, const void* from, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                   int64_t item_bytes);

}  // namespace npugraph::runtime
