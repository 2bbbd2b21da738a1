// SPDX-License-Identifier: Apache-2.0
// Which rows go to which experts of which ranks.
#pragma once

#include <vector>

#include <ATen/ATen.h>

namespace npugraph::npu_ops {

using at::Tensor;

// Numbers of rows: of each rank for each expert of this rank, or of this rank for each expert of each rank, as
// counts[rank * experts + expert].
class Routes {
 public:
  // Raises c10::Error in the name of `op` if there are not ranks * experts counts. `counts` must outlive this object.
  Routes(const char* op, const char* name, at::IntArrayRef counts, int64_t ranks, int64_t experts);

  int64_t rows() const;
  std::vector<int64_t> of_ranks() const;
  std::vector<int64_t> of_experts() const;
  // Rows in the order of ranks, then experts -> in the order of experts, then ranks.
  Tensor by_expert(const Tensor& rows) const;
  // The inverse of by_expert.
  Tensor by_rank(const Tensor& rows) const;

 private:
  at::IntArrayRef counts_;
  int64_t ranks_;
  int64_t experts_;
};

}  // namespace npugraph::npu_ops
