// SPDX-License-Identifier: Apache-2.0
// Keys that queries read because they are chosen for them.
#pragma once

#include "torch/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// bool [batches, heads, rows, columns]: not one of the blocks of `block_size` columns that `indices`, [batches, heads, rows, n],
// name. Numbers of no block, as -1, name none.
Tensor not_chosen(const Tensor& indices, int64_t block_size, const c10::SymInt& columns);

// [batches, heads, rows, columns] of [batches, heads, rows, n]: each of `values` added to the column that `indices` name for it.
Tensor at_chosen(const Tensor& values, const Tensor& indices, const c10::SymInt& columns);

// The same for each of the heads that share one of `tensor`.
Tensor shared_by_heads(const Tensor& tensor, const c10::SymInt& heads);

}  // namespace npugraph::npu_ops
