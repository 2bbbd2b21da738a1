// SPDX-License-Identifier: Apache-2.0
// Shared by operators that multiply and communicate.
#pragma once

#include <string_view>
#include <vector>

#include <ATen/ATen.h>

#include "device/distributed/group.h"
#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// Which rows go to which experts of which ranks. Numbers of rows: of each rank for each expert of this rank, or of this
// rank for each expert of each rank, as counts[rank * experts + expert].
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

// Checks that x1 has 2 to `most_dims` dimensions, and that x2 is [inner, n].
void check_matrices(const char* op, const Tensor& x1, const Tensor& x2, const c10::SymInt& inner,
                    int64_t most_dims = 2);
// Checks that the type is int8 or float8.
void check_small(const char* op, const char* name, const Tensor& tensor);
// Checks that `number` of `what` can be split evenly over the ranks.
void check_split(const char* op, const char* what, const c10::SymInt& number, int64_t world_size);

// Sends the r-th of equal pieces of the rows to rank r. The piece that comes from rank r is the
// r-th piece of the columns.
Tensor rows_to_columns(const distributed::Group& group, const Tensor& rows);
// Sends the r-th of equal pieces of the columns to rank r. The piece that comes from rank r is the
// r-th piece of the rows.
Tensor columns_to_rows(const distributed::Group& group, const Tensor& columns);

// Number of experts of `weight` [experts, k, n].
int64_t experts_of(const Tensor& weight);

// Sends rows from their ranks to the experts of all ranks, and back.
class ExpertRoutes {
 public:
  ExpertRoutes(const char* op, std::string_view hcom, const Tensor& weight, int64_t ranks, at::IntArrayRef send_counts,
               at::IntArrayRef recv_counts);

  // Takes rows ordered by rank, then expert. Returns the rows that come, ordered by expert, then rank.
  Tensor to_experts(const Tensor& rows) const;
  // Takes rows ordered by expert, then rank. Returns the rows that come, ordered by rank, then expert.
  Tensor to_ranks(const Tensor& rows) const;
  const Routes& sent() const { return sent_; }
  const Routes& received() const { return received_; }

 private:
  Routes sent_, received_;
  distributed::Group group_;
};

// Number of rows that come.
int64_t received_rows(const char* op, const Tensor& weight, int64_t ranks, at::IntArrayRef recv_counts);

}  // namespace npugraph::npu_ops
