// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/exchange/routes.h"

#include <numeric>

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

}  // namespace npugraph::npu_ops
