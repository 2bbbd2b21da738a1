// SPDX-License-Identifier: Apache-2.0
// Shared by operators of mixtures of experts. A pair is one of the k experts of one token. All places are int64.
#pragma once

#include "device/npu_ops/framework/checks.h"
#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {

// Places of the k greatest along the last dimension, in falling order; of equal ones the first
// (torch.topk leaves that open).
Tensor top_places(const Tensor& x, int64_t k);
// Places of the elements of a vector in rising order; equal ones in the order in which they stand.
Tensor rising_places(const Tensor& x);
// The inverse of a permutation.
Tensor inverse_of(const Tensor& permutation);
// How often each of 0, 1, ..., n - 1 is in `ids`, all of which are below n, in int64.
Tensor counts_of(const Tensor& ids, const c10::SymInt& n);
// `choice` with -inf for all but the `keep` best of `groups` equal parts of the last dimension. The score of a part is
// the sum of its `summed` greatest elements.
Tensor only_best_groups(const Tensor& choice, int64_t groups, int64_t keep, int64_t summed);
// Rows `places`, which may have any shape, of `x`; zeros where `valid` is false.
Tensor rows_or_zeros(const Tensor& x, const Tensor& places, const Tensor& valid);
// `rows` [..., n] times `weights` [...], in float32. Rows of weight 0 become zeros even where they are not
// finite: callers give the pairs of other ranks a weight of 0 and any row, such as that of a padded token.
Tensor weighted(const Tensor& rows, const Tensor& weights);

}  // namespace npugraph::npu_ops
