// SPDX-License-Identifier: Apache-2.0
// The number of copies of its body that an iteration of a vector loop runs: the candidates and their costs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "target/target.h"

namespace npugraph::codegen {

// The facts about a vector loop that the choice depends on.
struct VectorBody {
  int statements = 0;             // that compute or move something
  int lanes = 1;                  // of an iteration
  std::optional<int64_t> extent;  // of the loop, if it is known
};

// In rising order, from 1 on.
std::vector<int> copy_candidates(const VectorBody& body);

// Rough cost in instructions per vector.
double cost_of(const VectorBody& body, int copies, const target::Target& target);

// The cheapest number of copies; the smallest of equally cheap ones.
int choose_copies(const VectorBody& body, const target::Target& target);

}  // namespace npugraph::codegen
