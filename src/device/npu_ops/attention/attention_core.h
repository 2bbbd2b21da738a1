// SPDX-License-Identifier: Apache-2.0
// Attention of queries [batches, heads, rows, size] to keys and values [batches, key heads, columns, size], where heads
// are a multiple of key heads and head h reads key head h / (heads / key heads):
//
//   weights = softmax(queries @ keys^T * scale + bias)        over the columns that a row sees
//   result  = dropout(weights) @ values
//
// A row that sees no column has weights and result 0. With a sink, one number a head, softmax has one more column, of
// this score, that has no value. All is computed in float32 (float64 stays); the result has the type of the queries.
#pragma once

#include <vector>

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// How scores become weights. Undefined tensors are absent; those of four dimensions have sizes of the scores or 1.
struct Weighting {
  double scale = 1;
  Tensor bias;
  Tensor dropped;       // bool, true where a row does not see a column
  bool causal = false;  // whether `dropped` is true exactly above the diagonal
  Tensor sink;          // [heads]
  Tensor kept;          // bool, of the full shape of the scores: false where dropout sets weights to 0
  double keep_prob = 1;
};

struct Attention {
  Tensor result;
  // [batches, heads, rows, 1]: the largest score, including the sink, and the sum of exp(score - max); -inf and 0 if a
  // row sees no column. They have no gradient.
  Tensor max, sum;
  Tensor lse() const { return max + sum.log(); }
};

void check_heads(const char* op, const Tensor& query, const Tensor& key, const Tensor& value);

// Only the result. Calls torch's scaled_dot_product_attention, which the compiler knows, unless
// there is a sink or dropout.
Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value, const Weighting& weighting);

// Only the statistics.
Attention statistics(const Tensor& query, const Tensor& key, const Weighting& weighting);

Attention attend_with_statistics(const Tensor& query, const Tensor& key, const Tensor& value,
                                 const Weighting& weighting);

// exp(score - max) / sum, with max and sum of `saved`: [batches, heads, rows, columns].
Tensor saved_weights(const Tensor& query, const Tensor& key, const Weighting& weighting, const Attention& saved);

// The numbers that are subtracted from scores before exp, and that exponentials are divided by: `max` and `sum`, but 0
// and 1 for rows that see no column.
Tensor base_of(const Tensor& max);
Tensor divisor_of(const Tensor& sum);

// The gradient of softmax along `dim`, from its result.
Tensor softmax_gradient(const Tensor& gradient, const Tensor& result, int64_t dim);

struct AttentionGradients {
  Tensor query, key, value;  // in the types of these
  // The gradient of the scores before softmax, in float32. Summed over the dimensions that a bias lacks, it is
  // the gradient of the bias.
  Tensor scores;
  Tensor sink;  // [heads]; undefined where there is none
};

// FlashAttention-2 (Dao, 2023), section 3.1: weights come from `saved`.max and .sum, and row sums of weights times
// their gradients from `saved`.result.
AttentionGradients attention_gradients(const Tensor& query, const Tensor& key, const Tensor& value,
                                       const Weighting& weighting, const Attention& saved, const Tensor& gradient);

// Merges results for disjoint sets of columns, each with the logarithms of its sums of exponentials (..., 1), into
// result and logarithms for all columns, in float32.
struct Merged {
  Tensor result, lse;
};
Merged merge(const std::vector<Tensor>& results, const std::vector<Tensor>& lses);

}  // namespace npugraph::npu_ops
