// SPDX-License-Identifier: Apache-2.0
// Rows from rank to rank, for operators that are made of parts: one more part, which compiled graphs call whole. Its
// sizes are known without values, and it has a gradient, which takes the way back.
#pragma once

#include <optional>
#include <string>

#include "torch/npu_ops/checks.h"

namespace npugraph::npu_ops {

using OptionalSymInt = std::optional<c10::SymInt>;

// More than one rank, of which this one is `rank`. Errors are in the name of operator `op`.
struct RankGroup {
  const char* op;
  std::string name;
  int64_t size, rank;
};

// Rank r gets the next sent[r] rows of `rows`; received[r] rows come from it. The result has those of rank 0 first, and
// zeros after all of them, up to `out_rows`; c10::Error where more come.
Tensor exchanged(const RankGroup& ranks, const Tensor& rows, const Tensor& sent, const Tensor& received,
                 const c10::SymInt& out_rows);
// The same of equal pieces. c10::Error on all ranks where some have another number of tokens, `agreed`.
Tensor exchanged(const RankGroup& ranks, const Tensor& rows, OptionalSymInt agreed = std::nullopt);

// Makes the part known to torch, once.
void register_rank_exchange();

}  // namespace npugraph::npu_ops
