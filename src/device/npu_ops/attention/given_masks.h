// SPDX-License-Identifier: Apache-2.0
// Masks that calls give by positions of queries and keys.
#pragma once

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// The first `rows` and `columns` of a mask for sequence `index`, or for all sequences if it is -1, as bool. The
// mask has 2 to 4 dimensions, [(batches or 1), (heads or 1), rows, columns], and is not 0 where it drops.
// Undefined if there is no mask.
Tensor first_of_mask(const char* op, const char* name, const Tensor& mask, int64_t index, const c10::SymInt& rows,
                     const c10::SymInt& columns);

}  // namespace npugraph::npu_ops
