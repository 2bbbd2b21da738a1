// SPDX-License-Identifier: Apache-2.0
// Masks that calls give for positions of queries and of what they read.
#pragma once

#include "torch/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// Of a mask of 2 to 4 dimensions, [(batches or 1), (heads or 1), rows, columns], not 0 where it drops: bool, the first `rows` and
// `columns` of sequence `index`, or of all where it is -1. Undefined where there is no mask.
Tensor first_of_mask(const char* op, const char* name, const Tensor& mask, int64_t index, const c10::SymInt& rows,
                     const c10::SymInt& columns);

}  // namespace npugraph::npu_ops
