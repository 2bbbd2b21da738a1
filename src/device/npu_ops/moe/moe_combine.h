// SPDX-License-Identifier: Apache-2.0
// Rows from the experts of all ranks back to their tokens.
#pragma once

#include "device/npu_ops/moe/moe_ranks.h"

namespace npugraph::npu_ops {

// Rows that came back, and the row of each slot of each token: `places` and `valid` are [tokens, slots].
struct Home {
  Tensor rows, places, valid;
};

// From the results of npu_moe_distribute_dispatch: `within` is the position of each pair among those of its expert.
Home home_by_places(const ExpertRanks& experts, const Tensor& expand_x, const Tensor& expert_ids, const Tensor& within,
                    const Tensor& ends, const OptionalTensor& mask);
// From the results of npu_moe_distribute_dispatch_v2: `notes` of each row.
Home home_by_notes(const ExpertRanks& experts, const Tensor& expand_x, const Tensor& expert_ids, const Tensor& notes,
                   const Tensor& ends);

// From rows that came back, with token and slot of each of them.
Home home_of(const Arrived& home, const c10::SymInt& tokens, const c10::SymInt& slots);

// Numbers of special experts, which are numbered after the experts of ranks, in this order: they return
// zeros, the token itself, or alpha_1 * token + alpha_2 * v, with two numbers and a row v for each (Jin et
// al., 2024, arXiv:2410.07348).
struct SpecialExperts {
  int64_t zero, copy, constant;
  OptionalTensor ori_x, alpha_1, alpha_2, v;

  void check(const char* op) const;
};

// For each token, the sum of its rows times expert_scales, the rows of shared experts, the results of special experts,
// and `shared_x`; in float32.
Tensor combined(const ExpertRanks& experts, const Home& home, const Tensor& expert_ids, const Tensor& expert_scales,
                const OptionalTensor& shared_x, const SpecialExperts& special = {});

}  // namespace npugraph::npu_ops
