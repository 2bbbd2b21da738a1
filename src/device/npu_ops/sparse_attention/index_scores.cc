// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/sparse_attention/index_scores.h"

#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

// [batches, heads, rows, columns]
Tensor relu_products(const IndexHeads& heads) {
  return wide(heads.query).matmul(wide(heads.key).transpose(-1, -2)).relu();
}

}  // namespace

Tensor index_scores(const IndexHeads& heads, const Tensor& hidden) {
  const Tensor scores = (relu_products(heads) * wide(heads.weights)).sum(1, /*keepdim=*/true);
  return hidden.defined() ? scores.masked_fill(hidden, -kInfinity) : scores;
}

IndexHeads index_gradients(const IndexHeads& heads, const Tensor& gradient) {
  const Tensor products = relu_products(heads);
  const Tensor of_weights = (products * gradient).sum(-1, /*keepdim=*/true);
  const Tensor of_products = (wide(heads.weights) * gradient).masked_fill(products.le(0), 0.0);
  const Tensor of_key = of_products.transpose(-1, -2).matmul(wide(heads.query)).sum(1, /*keepdim=*/true);
  return {of_products.matmul(wide(heads.key)).to(heads.query.scalar_type()), of_key.to(heads.key.scalar_type()),
          of_weights.to(heads.weights.scalar_type())};
}

ScoreStatistics statistics_of(const Tensor& scores) {
  const Tensor max = longer(scores, -1, 1, -kInfinity).amax(-1, /*keepdim=*/true);  // there may be no column
  const Tensor base = max.masked_fill(max.eq(-kInfinity), 0.0);
  return {max, scores.sub(base).exp().sum(-1, /*keepdim=*/true)};
}

ScoreWeights weights_of(const Tensor& scores, const ScoreStatistics& statistics) {
  const Tensor nothing = statistics.sum.eq(0);
  const Tensor lse = (statistics.max + statistics.sum.log()).masked_fill(nothing, 0.0);
  const Tensor logarithms = scores - lse;
  return {logarithms.exp(), logarithms};
}

}  // namespace npugraph::npu_ops
