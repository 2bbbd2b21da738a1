// SPDX-License-Identifier: Apache-2.0
// Exchange of rows between ranks, for composed operators. It is a part of its own, which compiled graphs call whole.
// One call exchanges all rows of an operator, so that all ranks make the same calls whichever results they use. The
// sizes of its results do not depend on values, and it has a gradient, which sends rows back.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

using OptionalSymInt = std::optional<c10::SymInt>;

// A group of more than one rank, of which this process is `rank`. Errors name the operator `op`.
struct RankGroup {
  const char* op;
  std::string name;
  int64_t size, rank;
};

struct Arrived {
  std::vector<Tensor> rows;
  Tensor counts;
};
// Sends to rank r the next rows of each of `rows`, as many as row r of `counts` [ranks, ...] sums up to. The results
// have the rows of rank 0 first, and zeros after all rows, up to `places`; their counts are those of each rank for this
// one. Raises c10::Error if more rows come, and on all ranks if `agreed`, a number of tokens, is not the same on all.
Arrived exchanged(const RankGroup& ranks, std::vector<Tensor> rows, const Tensor& counts, const c10::SymInt& places,
                  OptionalSymInt agreed = std::nullopt);

// Registers the part with torch. Must be called once.
void register_rank_exchange();

}  // namespace npugraph::npu_ops
