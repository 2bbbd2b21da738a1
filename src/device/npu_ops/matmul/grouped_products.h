// SPDX-License-Identifier: Apache-2.0
// Grouped products: groups of rows of one matrix, each times a matrix of its own.
#pragma once

#include <vector>

#include "device/npu_ops/matmul/quant_products.h"

namespace npugraph::npu_ops {

// Rows [begin, end) of group number `group`.
struct Segment {
  int64_t group, begin, end;
};
// Segments from the values of a tensor of cumulative ends (type 0), counts (1), or pairs of group and count (2).
// `limit` is the number of rows.
std::vector<Segment> segments_of(const char* op, const Tensor& group_list, int64_t type, int64_t limit);
// The same from numbers; with type 2, two consecutive ones are a pair.
std::vector<Segment> segments_of(const char* op, at::IntArrayRef numbers, int64_t type, int64_t limit);

// One tensor for all groups, whose first dimension is that of groups, or one tensor for each group.
using Tensors = std::vector<Tensor>;
using TensorsOf = std::optional<Tensors>;
OptionalTensor of_group(const TensorsOf& tensors, int64_t group, bool are_stacked);

// Weights as [groups, k, n], or [k, n] of one group. They may be given in the layout NZ, [..., n / n0, k / k0, k0, n0].
Tensor without_fractals(const Tensor& weight);
std::vector<Tensor> without_fractals(at::TensorList weights);

// Arguments shared by the products of all groups.
struct GroupedProduct {
  std::vector<Tensor> weight;
  TensorsOf bias, scale, offset, antiquant_scale, antiquant_offset;
  std::optional<int64_t> x_dtype, weight_dtype, scale_dtype, per_token_scale_dtype;
  int64_t act_type = 0;  // 0 none, 1 relu, 2 gelu by tanh, 3 gelu, 4 gelu by a sigmoid, 5 silu
  at::ScalarType type = at::kHalf;

  bool is_stacked() const { return weight.size() == 1 && weight[0].dim() == 3; }
  c10::SymInt groups() const;
  Tensor weight_of(int64_t group) const { return is_stacked() ? weight[0].select(0, group) : weight.at(group); }
  // Number of columns of the results for rows of `x`.
  c10::SymInt columns(const char* op, const Tensor& x) const;
};
// `x` [..., k] times the weight of `group`, in `type`. `per_token_scale` has one value for each row of `x`.
Tensor product_of_group(const char* op, const GroupedProduct& in, const Tensor& x, int64_t group,
                        const OptionalTensor& per_token_scale);
// The products of all rows of `x` by `segments`; zeros for rows of no segment.
Tensor product_of_rows(const char* op, const GroupedProduct& in, const Tensor& x, const std::vector<Segment>& segments,
                       const OptionalTensor& per_token_scale);

}  // namespace npugraph::npu_ops
