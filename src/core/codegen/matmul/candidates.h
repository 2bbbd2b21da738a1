// SPDX-License-Identifier: Apache-2.0
// The plans among which a product of given sizes and strides chooses, and their costs.
#pragma once

#include <vector>

#include "codegen/matmul/plan.h"

namespace npugraph::codegen {

// On AMX, more panels of A than this pass through the L1 cache, in which rows of B stay.
inline constexpr int64_t kFewPanels = 4;

// Complete plans of a product whose sizes and places are known, the usual one first.
std::vector<MatmulPlan> candidates_of(const MatmulPlan& plan, const target::Target& target);

// Rough costs in nanoseconds, without those that are the same for all candidates: of all, and without the epilogue.
double cost_of(const MatmulPlan& plan, const target::Target& target);
double cost_of_sums(const MatmulPlan& plan, const target::Target& target);

}  // namespace npugraph::codegen
