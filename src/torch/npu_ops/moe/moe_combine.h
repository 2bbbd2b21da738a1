// SPDX-License-Identifier: Apache-2.0
// Rows from the experts of all ranks home to their tokens.
#pragma once

#include "torch/npu_ops/moe/moe_ranks.h"

namespace npugraph::npu_ops {

// The row of each slot of each token that came home; `places` and `valid` are [tokens, slots].
struct Home {
  Tensor rows, places, valid;
};

// By what npu_moe_distribute_dispatch gives: `within` has the place of each pair among those of its expert.
Home home_by_places(const ExpertRanks& experts, const Tensor& expand_x, const Tensor& expert_ids, const Tensor& within,
                    const Tensor& ends, const OptionalTensor& mask);
// By what npu_moe_distribute_dispatch_v2 gives: `notes` of each row.
Home home_by_notes(const ExpertRanks& experts, const Tensor& expand_x, const Tensor& expert_ids, const Tensor& notes,
                   const Tensor& ends);

// By what came home: rows, and token and slot of each of them.
Home home_of(const Arrived& home, const c10::SymInt& tokens, const c10::SymInt& slots);

// Kinds of experts after those of ranks, by their numbers: they give zeros, then the token itself, then alpha_1 * token +
// alpha_2 * v, of numbers alpha_1 and alpha_2 and a row v of each (Jin et al., 2024, arXiv:2410.07348).
struct SpecialExperts {
  int64_t zero, copy, constant;
  OptionalTensor ori_x, alpha_1, alpha_2, v;

  void check(const char* op) const;
};

// For each token the sum of its rows times expert_scales, of the rows of shared experts, of what special experts give, and of
// `shared_x`; in float32.
Tensor combined(const ExpertRanks& experts, const Home& home, const Tensor& expert_ids, const Tensor& expert_scales,
                const OptionalTensor& shared_x, const SpecialExperts& special = {});

}  // namespace npugraph::npu_ops
