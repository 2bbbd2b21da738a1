// SPDX-License-Identifier: Apache-2.0
// Rows from rank to rank, for operators that are made of parts: one more part, which compiled graphs call whole, and
// all rows of a call in one, so that all ranks come to the same calls whatever they use of them. Its sizes are known
// without values, and it has a gradient, which takes the way back.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "torch/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

using OptionalSymInt = std::optional<c10::SymInt>;

// More than one rank, of which this one is `rank`. Errors are in the name of operator `op`.
struct RankGroup {
  const char* op;
  std::string name;
  int64_t size, rank;
};

struct Arrived {
  std::vector<Tensor> rows;
  Tensor counts;
};
// Rank r gets as many of the next rows of each of `rows` as the r-th row of `counts` [ranks, ...] sums up to. What comes has
// the rows of rank 0 first, and zeros after all of them, up to `places`; its counts are what each rank has for this one.
// c10::Error where more rows come, and on all ranks where `agreed`, a number of tokens, is not the same.
Arrived exchanged(const RankGroup& ranks, std::vector<Tensor> rows, const Tensor& counts, const c10::SymInt& places,
                  OptionalSymInt agreed = std::nullopt);

// Makes the part known to torch, once.
void register_rank_exchange();

}  // namespace npugraph::npu_ops
