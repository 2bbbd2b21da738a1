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

#include "lower/lower.h"
#include "program/program.h"

namespace npugraph::lower {

// Merges the last of `tasks` into an earlier one, and returns that task's index. Returns nullopt and changes nothing if
// there is no such product, or if one of the two, or a task in between, writes a buffer that another one touches
// (except in step).
std::optional<size_t> merge_product(std::vector<program::Task>& tasks);

// Products that compute their second factor themselves, row by row, instead of reading it from memory:
//
//   loop.convert.mul(codes, scales -> w)
//   matmul.mm(x, w -> y)                      ->    matmul.convert.mul.mm(x, codes, scales -> y)
//
// So weights that a program dequantises are read as they are stored, and never lie in memory as a whole. The product
// computes a row when it reads it, for a few rows of y once.
//
// Candidates are loops that store one dense matrix of constant sizes, more bytes than they read, in slices that divide
// its rows (loop/slices.h), which the product alone reads. Legality: a loop that cannot fail may move down over tasks
// of its stream that write nothing it reads.

// `notes` has one entry per task, before and after. Requires a Program without a plan.
void merge_factors(program::Program& program, std::vector<TaskNote>& notes);

}  // namespace npugraph::lower
