// SPDX-License-Identifier: Apache-2.0
// How many copies of its body an iteration of a vector loop runs: the candidates, and what they cost.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "target/target.h"

namespace npugraph::codegen {

// What a choice depends on.
struct VectorBody {
  int statements = 0;             // that compute or move something
  int lanes = 1;                  // of an iteration
  std::optional<int64_t> extent;  // of the loop, where it is known
};

// 1 first.
std::vector<int> copy_candidates(const VectorBody& body);

// In instructions per vector, roughly.
double cost_of(const VectorBody& body, int copies, const target::Target& target);

// The cheapest; among equals, the least.
int choose_copies(const VectorBody& body, const target::Target& target);

}  // namespace npugraph::codegen
