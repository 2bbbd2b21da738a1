// SPDX-License-Identifier: Apache-2.0
// The experts of several ranks, and the transport of rows of tokens to them and back.
//
// The first `shared_ranks` ranks have shared experts, which take all tokens. Each shared expert is on equally many
// consecutive ranks, the (r modulo that number)-th of which takes the tokens of rank r. Each of the other ranks has
// equally many of the experts that tokens choose. A seat is an expert on a rank; seats are numbered by rank, then
// expert. A slot of a token is one of its k experts or, after these, one of the shared experts.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "device/npu_ops/exchange/rank_exchange.h"
#include "device/npu_ops/framework/call_arguments.h"
#include "device/npu_ops/quantisation/quantisation.h"

namespace npugraph::npu_ops {

struct ExpertRanks {
  const char* op;
  std::string group;
  int64_t size, rank, tp_size, shard_type, shared_experts, shared_ranks, experts;

  // Raises RuntimeError if the numbers do not fit together.
  void check() const;

  int64_t seats() const { return shared_ranks + experts; }
  int64_t seats_of_chosen() const { return experts / (size - shared_ranks); }  // of each rank that has any
  int64_t own_seats() const { return rank < shared_ranks ? 1 : seats_of_chosen(); }
  int64_t shared_slots() const { return shared_ranks == 0 ? 0 : shared_experts; }
  int64_t ranks_of_shared() const { return shared_ranks / shared_experts; }  // of each shared expert
  bool is_alone() const { return size == 1; }
  RankGroup ranks() const { return {op, group, size, rank}; }

  // Largest number of rows that may come to this rank if all ranks together have up to `tokens` tokens.
  c10::SymInt capacity(const c10::SymInt& tokens, const c10::SymInt& k) const;
  // The seat of each slot [tokens, slots]; seats() for slots that are not sent: of tokens and pairs that `mask` leaves
  // out, and of experts from number `experts` on.
  Tensor seats_of(const Tensor& expert_ids, const OptionalTensor& mask) const;
};

// From the arguments of an operator.
ExpertRanks expert_ranks_of(const CallArguments& call);

// Sends rows that are ordered by seat, counts[seat] of them to each seat. Returns the rows for the seats of this rank,
// ordered by seat, then by the rank they come from, with zeros after them, up to capacity(tokens, k). Their counts are
// those of each rank for each seat of this rank.
Arrived sent_to_experts(const ExpertRanks& experts, std::vector<Tensor> rows, const Tensor& counts,
                        const c10::SymInt& tokens, const c10::SymInt& k);
// The way back: sends rows, in the order in which they came. Returns the rows of the tokens of this rank, ordered by
// seat, with zeros after them, up to `places`. `ends` are the cumulative counts of the rows of each seat and rank, as
// they came; numbers behind them are not read. The sum of the returned counts is the number of rows that came back.
Arrived sent_home(const ExpertRanks& experts, std::vector<Tensor> rows, const Tensor& ends, const c10::SymInt& places);

constexpr int64_t kNotesOfRow = 128;  // int32 of assist_info for each row: rank, token, slot, zeros

// How tokens go to the experts of all ranks.
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
