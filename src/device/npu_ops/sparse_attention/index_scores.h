// SPDX-License-Identifier: Apache-2.0
// Scores of the lightning indexer (DeepSeek-V3.2, 2025, equation 1) for a row of queries and a key:
//
//   score = sum over heads of weight * relu(query @ key)
//
// Queries are [batches, heads, rows, size], weights [batches, heads, rows, 1], keys [batches, 1, columns, size]. All is
// computed in float32 (float64 stays).
#pragma once

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

struct IndexHeads {
  Tensor query, key, weights;
};

// [batches, 1, rows, columns]; -inf where `hidden` is true. `hidden` may be undefined.
Tensor index_scores(const IndexHeads& heads, const Tensor& hidden);

// Gradients for `heads`, in their types, given the gradient of the scores.
IndexHeads index_gradients(const IndexHeads& heads, const Tensor& gradient);

// [batches, 1, rows, 1]: the largest score, and the sum of exp(score - max); -inf and 0 if all are hidden.
struct ScoreStatistics {
  Tensor max, sum;
};
ScoreStatistics statistics_of(const Tensor& scores);

// exp(score - max) / sum, and its logarithm; 0 and -inf where a score is hidden.
struct ScoreWeights {
  Tensor weights, logarithms;
};
ScoreWeights weights_of(const Tensor& scores, const ScoreStatistics& statistics);

}  // namespace npugraph::npu_ops
