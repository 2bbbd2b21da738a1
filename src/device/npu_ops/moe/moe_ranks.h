// SPDX-License-Identifier: Apache-2.0
// The experts of several ranks, and the transport of rows of tokens to them and back.
//
// The first `shared_ranks` ranks have shared experts, which take all tokens. Each shared expert is on equally many
// consecutive ranks, the (r modulo that number)-th of which takes the tokens of rank r. Each of the other ranks has
// equally many of the experts that tokens choose. A seat is an expert on a rank; seats are numbered by rank, then
// expert. A slot of a token is one of its k experts or, after these, one of the shared experts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "device/npu_ops/exchange/rank_exchange.h"
#include "device/npu_ops/framework/call_arguments.h"

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

}  // namespace npugraph::npu_ops
