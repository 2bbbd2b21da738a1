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

// The ranks that an operator's argument `hcom` names: those of the process group with that name. Where this process has
// no group of the backend hccl, any name is that of the one rank that there is, and collectives give what they are
// given.
class Group {
 public:
  // c10::Error in the name of operator `op` for the name of no group, and for another number of ranks than
  // `world_size`.
  Group(const char* op, const std::string& name, std::optional<int64_t> world_size = std::nullopt);

  int64_t size() const { return backend_ ? backend_->getSize() : 1; }
  int64_t rank() const { return backend_ ? backend_->getRank() : 0; }

  // Waits for all ranks.
  void barrier() const;
  // The sum over all ranks.
  Tensor all_reduce(const Tensor& data) const;
  // This rank's piece of the sum, of equal pieces along dimension 0.
  Tensor reduce_scatter(const Tensor& data) const;
  // The data of all ranks, along dimension 0.
  Tensor all_gather(const Tensor& data) const;
  // Rank r gets the next `rows[r]` rows; `out_rows[r]` rows come from it. Equal numbers if there are none.
  Tensor all_to_all(const Tensor& data, std::vector<int64_t> out_rows = {}, std::vector<int64_t> rows = {}) const;

 private:
  c10::intrusive_ptr<c10d::Backend> backend_;  // none: one rank
};

}  // namespace npugraph::distributed
