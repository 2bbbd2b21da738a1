// SPDX-License-Identifier: Apache-2.0
// Products of groups: rows of one matrix, each group of them with a matrix of its own.
#pragma once

#include <vector>

#include "torch/npu_ops/matmul/quant_products.h"

namespace npugraph::npu_ops {

// Rows [begin, end) of the group of that number.
struct Segment {
  int64_t group, begin, end;
};
// Of a tensor of cumulative ends (type 0), counts (1), or pairs of group and count (2), whose values are read. `limit` is the
// number of rows there are.
std::vector<Segment> segments_of(const char* op, const Tensor& group_list, int64_t type, int64_t limit);
// The same of numbers, of which two make a pair.
std::vector<Segment> segments_of(const char* op, at::IntArrayRef numbers, int64_t type, int64_t limit);

// One tensor for all groups, of which the first dimension is that of groups; or one tensor for each.
using TensorsOf = std::optional<std::vector<Tensor>>;
OptionalTensor of_group(const TensorsOf& tensors, int64_t group, bool are_stacked);

// Weights [groups, k, n], or [k, n] of one group, of which memory of the layout NZ, [..., n / n0, k / k0, k0, n0], may be given.
Tensor without_fractals(const Tensor& weight);
std::vector<Tensor> without_fractals(at::TensorList weights);

// What the products of all groups share.
struct GroupedProduct {
  std::vector<Tensor> weight;
  TensorsOf bias, scale, offset, antiquant_scale, antiquant_offset;
  std::optional<int64_t> x_dtype, weight_dtype, scale_dtype, per_token_scale_dtype;
  int64_t act_type = 0;  // 0 none, 1 relu, 2 gelu by tanh, 3 gelu, 4 gelu by a sigmoid, 5 silu
  at::ScalarType type = at::kHalf;

  bool is_stacked() const { return weight.size() == 1 && weight[0].dim() == 3; }
  c10::SymInt groups() const;
  Tensor weight_of(int64_t group) const { return is_stacked() ? weight[0].select(0, group) : weight.at(group); }
  // Columns of the results of rows of `x`.
  c10::SymInt columns(const char* op, const Tensor& x) const;
};
// `x` [..., k] times the weight of `group`, in `type`. `per_token_scale` is of the rows of `x`.
Tensor product_of_group(const char* op, const GroupedProduct& in, const Tensor& x, int64_t group,
                        const OptionalTensor& per_token_scale);
// All rows of `x` by `segments`; rows in none of them are zeros.
Tensor product_of_rows(const char* op, const GroupedProduct& in, const Tensor& x, const std::vector<Segment>& segments,
                       const OptionalTensor& per_token_scale);

}  // namespace npugraph::npu_ops
