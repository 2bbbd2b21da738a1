// SPDX-License-Identifier: Apache-2.0
// Products of one first factor as one task, which packs that factor once and starts its threads once:
//
//   q = matmul(x, wq)        q, k = matmul(x, wq, wk)
//   k = matmul(x, wk)
//
// Weights stay where they are. A product moves up over a few generated tasks that neither read nor write what it does. A gate
// and what it is multiplied with go in step (codegen::Order::kInStep): the end of the second one reads the result of the first
// one, element by element.
//
//   g = matmul(x, wg)                   g, u = matmul(x, wg, wu, silu(g) * u)
//   u = silu(g) * matmul(x, wu)
#pragma once

#include <optional>
#include <vector>

#include "program/program.h"

namespace npugraph::lower {

// Merges the last of `tasks` into an earlier one, and says which; nothing is done where none is such a product, or where one of
// them, or a task in between, writes what another one reads or writes, but in step.
std::optional<size_t> merge_product(std::vector<program::Task>& tasks);

}  // namespace npugraph::lower
