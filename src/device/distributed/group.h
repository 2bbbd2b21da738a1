// SPDX-License-Identifier: Apache-2.0
// Collectives for operators that communicate: over CPU tensors, done when they return.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace npugraph::distributed {

using at::Tensor;

// The process group that an operator's argument `hcom` names. If this process has no group of the backend hccl, the
// name of no group stands for this rank alone, and collectives return their arguments.
class Group {
 public:
  // c10::Error that names operator `op` if there is no such group, or if it does not have `world_size` ranks.
  Group(const char* op, const std::string& name, std::optional<int64_t> world_size = std::nullopt);

  int64_t size() const { return backend_ ? backend_->getSize() : 1; }
  int64_t rank() const { return backend_ ? backend_->getRank() : 0; }

  // Waits for all ranks.
  void barrier() const;
  // The sum over all ranks.
  Tensor all_reduce(const Tensor& data) const;
  // This rank's piece of the sum, which is cut into equal pieces along dimension 0.
  Tensor reduce_scatter(const Tensor& data) const;
  // The data of all ranks, along dimension 0.
  Tensor all_gather(const Tensor& data) const;
  // Rank r gets the next `rows[r]` rows; `out_rows[r]` rows come from it. Empty: equal numbers of rows.
  Tensor all_to_all(const Tensor& data, std::vector<int64_t> out_rows = {}, std::vector<int64_t> rows = {}) const;

 private:
  c10::intrusive_ptr<c10d::Backend> backend_;  // null: one rank
};

}  // namespace npugraph::distributed
