// SPDX-License-Identifier: Apache-2.0
// Keys that are chosen for each query.
#pragma once

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// bool [batches, heads, rows, columns]: whether a column is in none of the blocks of `block_size` columns that
// `indices`, [batches, heads, rows, n], name. Indices out of range, such as -1, name no block.
Tensor not_chosen(const Tensor& indices, int64_t block_size, const c10::SymInt& columns);

// [batches, heads, rows, columns]: each of `values` [batches, heads, rows, n] is added to the column that
// `indices` name for it.
Tensor at_chosen(const Tensor& values, const Tensor& indices, const c10::SymInt& columns);

// Repeats each head of `tensor` for the `heads` that share it.
Tensor shared_by_heads(const Tensor& tensor, const c10::SymInt& heads);

}  // namespace npugraph::npu_ops
