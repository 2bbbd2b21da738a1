// SPDX-License-Identifier: Apache-2.0
// The experts of several ranks, and rows of tokens on their way to them and home.
//
// The first `shared_ranks` ranks have shared experts, which take all tokens: each shared expert is on equally many ranks that
// follow each other, and takes there the tokens of rank r on the (r modulo that number)-th of them. Each of the other ranks has
// equally many of the experts that tokens choose. A seat is an expert on a rank; seats count by rank, then expert.
// A slot of a token is one of its k experts, or after these one of the shared experts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "torch/npu_ops/exchange/rank_exchange.h"
#include "torch/npu_ops/framework/call_arguments.h"

namespace npugraph::npu_ops {

struct ExpertRanks {
  const char* op;
  std::string group;
  int64_t size, rank, tp_size, shard_type, shared_experts, shared_ranks, experts;

  // RuntimeError for numbers that make no sense together.
  void check() const;

  int64_t seats() const { return shared_ranks + experts; }
  int64_t seats_of_chosen() const { return experts / (size - shared_ranks); }  // of each rank that has any
  int64_t own_seats() const { return rank < shared_ranks ? 1 : seats_of_chosen(); }
  int64_t shared_slots() const { return shared_ranks == 0 ? 0 : shared_experts; }
  int64_t ranks_of_shared() const { return shared_ranks / shared_experts; }  // of each shared expert
  bool is_alone() const { return size == 1; }
  RankGroup ranks() const { return {op, group, size, rank}; }

  // How many rows may come to this rank, where all ranks together have up to `tokens` tokens.
  c10::SymInt capacity(const c10::SymInt& tokens, const c10::SymInt& k) const;
  // The seat of each slot [tokens, slots]; seats() for those that go nowhere: of tokens and pairs that `mask` leaves out, and of
  // experts from number `experts` on.
  Tensor seats_of(const Tensor& expert_ids, const OptionalTensor& mask) const;
};

// As the arguments of an operator say.
ExpertRanks expert_ranks_of(const CallArguments& call);

// Rows by seat, of which this rank has counts[seat] for each seat -> those for the seats of this rank: by seat, then the rank
// they come from; zeros after them, up to capacity(tokens, k). Their counts are of each rank, for each of this rank's seats.
Arrived sent_to_experts(const ExpertRanks& experts, std::vector<Tensor> rows, const Tensor& counts,
                        const c10::SymInt& tokens, const c10::SymInt& k);
// The way back: rows as they came -> those of the tokens of this rank, by seat; zeros after them, up to `places`. `ends` are the
// cumulative counts of the rows of each seat and rank, as they came. The counts have the sum of those that come home.
Arrived sent_home(const ExpertRanks& experts, std::vector<Tensor> rows, const Tensor& ends, const c10::SymInt& places);

}  // namespace npugraph::npu_ops
