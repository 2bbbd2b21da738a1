// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/exchange/exchange_parts.h"

#include <numeric>
#include <string>

namespace npugraph::npu_ops {

Routes::Routes(const char* op, const char* name, at::IntArrayRef counts, int64_t ranks, int64_t experts)
    : counts_(counts), ranks_(ranks), experts_(experts) {
  TORCH_CHECK(static_cast<int64_t>(counts.size()) == ranks * experts, op, ": ", name, " must have ", ranks, " * ",
              experts, " counts, got ", counts.size());
}

int64_t Routes::rows() const { return std::accumulate(counts_.begin(), counts_.end(), int64_t{0}); }

std::vector<int64_t> Routes::of_ranks() const {
  std::vector<int64_t> out(ranks_, 0);
  for (size_t i = 0; i < counts_.size(); ++i) out[i / experts_] += counts_[i];
  return out;
}

std::vector<int64_t> Routes::of_experts() const {
  std::vector<int64_t> out(experts_, 0);
  for (size_t i = 0; i < counts_.size(); ++i) out[i % experts_] += counts_[i];
  return out;
}

Tensor Routes::by_expert(const Tensor& rows) const {
  const std::vector<Tensor> pieces = rows.split_with_sizes(counts_);
  std::vector<Tensor> out;
  for (int64_t expert = 0; expert < experts_; ++expert)
    for (int64_t rank = 0; rank < ranks_; ++rank) out.push_back(pieces[rank * experts_ + expert]);
  return at::cat(out);
}

Tensor Routes::by_rank(const Tensor& rows) const {
  std::vector<int64_t> sizes;
  for (int64_t expert = 0; expert < experts_; ++expert)
    for (int64_t rank = 0; rank < ranks_; ++rank) sizes.push_back(counts_[rank * experts_ + expert]);
  const std::vector<Tensor> pieces = rows.split_with_sizes(sizes);
  std::vector<Tensor> out;
  for (int64_t rank = 0; rank < ranks_; ++rank)
    for (int64_t expert = 0; expert < experts_; ++expert) out.push_back(pieces[expert * ranks_ + rank]);
  return at::cat(out);
}

using c10::SymInt;
using distributed::Group;

void check_matrices(const char* op, const Tensor& x1, const Tensor& x2, const SymInt& inner, int64_t most_dims) {
  check_dims(op, "x1", x1, 2, most_dims);
  check_dims(op, "x2", x2, 2, 2);
  TORCH_CHECK(x2.sym_size(0) == inner, op, ": x2 must have ", inner, " rows, got ", x2.sym_size(0));
}

void check_small(const char* op, const char* name, const Tensor& tensor) {
  check_type(op, name, tensor, {at::kChar, at::kFloat8_e4m3fn, at::kFloat8_e5m2});
}

void check_split(const char* op, const char* what, const SymInt& number, int64_t world_size) {
  TORCH_CHECK(number % world_size == 0, op, ": the ", number, ' ', what, " cannot be split over ", world_size,
              " ranks");
}

Tensor rows_to_columns(const Group& group, const Tensor& rows) {
  const int64_t ranks = group.size(), own = rows.size(0) / ranks, columns = rows.size(1);
  return group.all_to_all(rows).view({ranks, own, columns}).transpose(0, 1).reshape({own, ranks * columns});
}

Tensor columns_to_rows(const Group& group, const Tensor& columns) {
  const int64_t ranks = group.size(), rows = columns.size(0), own = columns.size(1) / ranks;
  return group.all_to_all(columns.view({rows, ranks, own}).transpose(0, 1).reshape({ranks * rows, own}));
}

int64_t experts_of(const Tensor& weight) { return weight.sym_size(0).guard_int(__FILE__, __LINE__); }

ExpertRoutes::ExpertRoutes(const char* op, std::string_view hcom, const Tensor& weight, int64_t ranks,
                           at::IntArrayRef send_counts, at::IntArrayRef recv_counts)
    : sent_(op, "send_counts", send_counts, ranks, experts_of(weight)),
      received_(op, "recv_counts", recv_counts, ranks, experts_of(weight)),
      group_(op, std::string(hcom), ranks) {}

Tensor ExpertRoutes::to_experts(const Tensor& rows) const {
  return received_.by_expert(group_.all_to_all(rows, received_.of_ranks(), sent_.of_ranks()));
}

Tensor ExpertRoutes::to_ranks(const Tensor& rows) const {
  return group_.all_to_all(sent_.by_rank(rows), received_.of_ranks(), sent_.of_ranks());
}

int64_t received_rows(const char* op, const Tensor& weight, int64_t ranks, at::IntArrayRef recv_counts) {
  return Routes(op, "recv_counts", recv_counts, ranks, experts_of(weight)).rows();
}

}  // namespace npugraph::npu_ops
