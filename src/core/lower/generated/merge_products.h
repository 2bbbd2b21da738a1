// SPDX-License-Identifier: Apache-2.0
// Merges products with the same first factor into one task, which packs that factor once and starts its threads once:
//
//   q = matmul(x, wq)        q, k = matmul(x, wq, wk)
//   k = matmul(x, wk)
//
// Weights are not moved. A product may move up over a few generated tasks that neither write its operands nor touch its
// results. A gate and the product that it is multiplied with run in step (codegen::Order::kInStep): the epilogue of the
// second product reads the result of the first one, element by element.
//
//   g = matmul(x, wg)                   g, u = matmul(x, wg, wu, silu(g) * u)
//   u = silu(g) * matmul(x, wu)
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "program/program.h"

namespace npugraph::lower {

// Merges the last of `tasks` into an earlier one, and returns that task's index. Returns nullopt and changes nothing if
// there is no such product, or if one of the two, or a task in between, writes a buffer that another one touches
// (except in step).
std::optional<size_t> merge_product(std::vector<program::Task>& tasks);

}  // namespace npugraph::lower
