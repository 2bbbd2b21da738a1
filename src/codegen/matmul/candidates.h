// SPDX-License-Identifier: Apache-2.0
// The plans among which a product of given sizes and strides chooses, and what they cost.
#pragma once

#include <vector>

#include "codegen/matmul/plan.h"

namespace npugraph::codegen {

// AMX: more panels of A than so many pass the first cache, in which rows of B stay.
inline constexpr int64_t kFewPanels = 4;

// Complete plans of a product whose sizes and places are known, the usual one first.
std::vector<MatmulPlan> candidates_of(const MatmulPlan& plan, const target::Target& target);

// In nanoseconds, roughly: without what is the same for all candidates.
double cost_of(const MatmulPlan& plan, const target::Target& target);

}  // namespace npugraph::codegen
