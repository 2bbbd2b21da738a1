// SPDX-License-Identifier: Apache-2.0
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
#pragma once

#include <vector>

#include "lower/lower.h"
#include "program/program.h"

namespace npugraph::lower {

// `notes` has one entry per task, before and after. Requires a Program without a plan.
void merge_factors(program::Program& program, std::vector<TaskNote>& notes);

}  // namespace npugraph::lower
