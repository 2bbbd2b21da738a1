// SPDX-License-Identifier: Apache-2.0
// Tokens to the experts of all ranks.
#pragma once

#include <optional>
#include <tuple>

#include "device/npu_ops/moe/moe_ranks.h"
#include "device/npu_ops/quantisation/quantisation.h"

namespace npugraph::npu_ops {

constexpr int64_t kNotesOfRow = 128;  // int32 of assist_info for each row: rank, token, slot, zeros

struct Dispatch {
  ExpertRanks experts;
  // 0 none, 1 by scales, 2 by the largest value of each row, 3 of each 128 values, 4 of each 32 (a power of two)
  int64_t quant_mode;
  int64_t global_bs, nums_type;
  bool notes_of_rows;  // combine needs an entry of assist_info for each row, and not a position for each pair
  std::optional<int64_t> y_dtype;
};

// Largest number of tokens that all ranks have together.
c10::SymInt tokens_of_all(const Dispatch& how, const Tensor& x);

// Rows that are to be sent, ordered by seat.
struct Outgoing {
  Tensor pairs;   // of each row: token * slots + slot; -1 for none
  Tensor counts;  // rows for each seat
  Tensor within;  // without notes_of_rows, [tokens, k]: the place of each pair among those of its seat, int32
  Quantised values;
};
Outgoing outgoing(const Dispatch& how, const Tensor& x, const Tensor& expert_ids, const OptionalTensor& scales,
                  const OptionalTensor& mask);

// expand_x, dynamic_scales, what combine needs, expert_token_nums, ep_recv_counts, tp_recv_counts, expand_scales.
using Dispatched = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;
// All ranks together have up to `tokens` tokens, of `k` experts each.
Dispatched delivered(const Dispatch& how, const Outgoing& outgoing, const c10::SymInt& tokens, const c10::SymInt& k,
                     const OptionalTensor& expert_scales);
Dispatched dispatched(const Dispatch& how, const Tensor& x, const Tensor& expert_ids, const OptionalTensor& scales,
                      const OptionalTensor& mask, const OptionalTensor& expert_scales);

}  // namespace npugraph::npu_ops
