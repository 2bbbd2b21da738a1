// SPDX-License-Identifier: Apache-2.0
// Products of one first factor as one task, which packs that factor once and starts its threads once:
//
//   q = matmul(x, wq)        q, k = matmul(x, wq, wk)
//   k = matmul(x, wk)
//
// Weights stay where they are. A product moves up over a few generated tasks that neither read nor write what it does.
#pragma once

#include <optional>
#include <vector>

#include "program/program.h"

namespace npugraph::lower {

// Merges the last of `tasks` into an earlier one, and says which; nothing is done where none is such a product, where one of
// them, or a task in between, writes what another one reads or writes, or where a result may take the memory of an operand.
std::optional<size_t> merge_product(std::vector<program::Task>& tasks);

}  // namespace npugraph::lower
