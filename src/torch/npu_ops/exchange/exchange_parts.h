// SPDX-License-Identifier: Apache-2.0
// What operators that multiply and communicate have in common.
#pragma once

#include <optional>
#include <string_view>

#include "torch/distributed/group.h"
#include "torch/npu_ops/exchange/routes.h"
#include "torch/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

using OptionalInt = std::optional<int64_t>;
using OptionalString = std::optional<std::string_view>;

// x1 has 2 to `most_dims` dimensions, and x2 is [inner, n].
void check_matrices(const char* op, const Tensor& x1, const Tensor& x2, const c10::SymInt& inner,
                    int64_t most_dims = 2);
// int8 or float8.
void check_small(const char* op, const char* name, const Tensor& tensor);
// `number` of `what` can be split over the ranks.
void check_split(const char* op, const char* what, const c10::SymInt& number, int64_t world_size);

// Rank r gets the r-th of equal pieces of the rows; what comes from it is the r-th piece of the columns.
Tensor rows_to_columns(const distributed::Group& group, const Tensor& rows);
// Rank r gets the r-th of equal pieces of the columns; what comes from it is the r-th piece of the rows.
Tensor columns_to_rows(const distributed::Group& group, const Tensor& columns);

// How many experts `weight` [experts, k, n] is of.
int64_t experts_of(const Tensor& weight);

// Rows between their ranks and the experts of all ranks.
class ExpertRoutes {
 public:
  ExpertRoutes(const char* op, std::string_view hcom, const Tensor& weight, int64_t ranks, at::IntArrayRef send_counts,
               at::IntArrayRef recv_counts);

  // Rows by rank, then expert, to the ranks; those that come, by expert, then rank.
  Tensor to_experts(const Tensor& rows) const;
  // Rows by expert, then rank, to the ranks; those that come, by rank, then expert.
  Tensor to_ranks(const Tensor& rows) const;
  const Routes& sent() const { return sent_; }
  const Routes& received() const { return received_; }

 private:
  Routes sent_, received_;
  distributed::Group group_;
};

// How many rows come.
int64_t received_rows(const char* op, const Tensor& weight, int64_t ranks, at::IntArrayRef recv_counts);

}  // namespace npugraph::npu_ops
