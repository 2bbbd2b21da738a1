// SPDX-License-Identifier: Apache-2.0
// Which rows go to which experts of which ranks.
#pragma once

#include <vector>

#include <ATen/ATen.h>

namespace npugraph::npu_ops {

using at::Tensor;

// How many rows each rank has for each expert of this one, or this rank for each expert of each one: counts[rank *
// experts + expert].
class Routes {
 public:
  // c10::Error in the name of `op` for another number of counts. `counts` outlives this.
  Routes(const char* op, const char* name, at::IntArrayRef counts, int64_t ranks, int64_t experts);

  int64_t rows() const;
  std::vector<int64_t> of_ranks() const;
  std::vector<int64_t> of_experts() const;
  // Rows in the order of ranks, then experts -> in the order of experts, then ranks.
  Tensor by_expert(const Tensor& rows) const;
  // The way back.
  Tensor by_rank(const Tensor& rows) const;

 private:
  at::IntArrayRef counts_;
  int64_t ranks_;
  int64_t experts_;
};

}  // namespace npugraph::npu_ops
