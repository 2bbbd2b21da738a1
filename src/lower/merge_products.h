// SPDX-License-Identifier: Apache-2.0
// Products of one first factor as one task, which packs that factor once and starts its threads once:
//
//   q = matmul(x, wq)        q, k = matmul(x, wq, wk)
//   k = matmul(x, wk)
//
// Weights stay where they are. Nothing moves over another task: only neighbours are merged.
#pragma once

#include "program/program.h"

namespace npugraph::lower {

// Merges `second`, which stands behind `first`, into it; false, with nothing done, where they are no such products, where one
// of them writes what the other one reads or writes, or where a result may take the memory of an operand.
bool merge_products(program::Task& first, const program::Task& second);

}  // namespace npugraph::lower
