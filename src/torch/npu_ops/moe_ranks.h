// SPDX-License-Identifier: Apache-2.0
// The experts of several ranks, and rows of tokens on their way to them and home.
//
// The first `shared_ranks` ranks have shared experts, which take all tokens: each shared expert is on equally many ranks that
// follow each other, and takes there the tokens of rank r on the (r modulo that number)-th of them. Each of the other ranks has
// equally many of the experts that tokens choose. A seat is an expert on a rank; seats count by rank, then expert.
// A slot of a token is one of its k experts, or after these one of the shared experts.
#pragma once

#include <string>

#include "torch/npu_ops/rank_exchange.h"

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

  // The seat of each slot [tokens, slots]; seats() for those that go nowhere: of tokens and pairs that `mask` leaves out, and of
  // experts from number `experts` on.
  Tensor seats_of(const Tensor& expert_ids, const OptionalTensor& mask) const;
};

// Rows on their way from their tokens to their experts.
class WayThere {
 public:
  // This rank has counts[seat] rows for each seat; all ranks together have up to `tokens` tokens of `k` experts.
  WayThere(const ExpertRanks& experts, const Tensor& counts, const c10::SymInt& tokens, const c10::SymInt& k);

  // How many rows may come to this rank.
  const c10::SymInt& capacity() const { return capacity_; }
  // Rows by seat -> capacity() rows for the seats of this rank: by seat, then the rank they come from; zeros after them.
  Tensor operator()(const Tensor& rows) const;
  // How many rows of each rank each of this rank's seats gets: [ranks, seats].
  const Tensor& counts() const { return counts_; }

 private:
  ExpertRanks experts_;
  Tensor counts_, order_, sent_, received_;
  c10::SymInt capacity_;
};

// The way back.
class WayHome {
 public:
  // `ends` are the cumulative counts of the rows of each seat and rank, as they came; up to `places` rows come home.
  WayHome(const ExpertRanks& experts, const Tensor& ends, const c10::SymInt& rows, const c10::SymInt& places);

  // Rows as WayThere made them -> those of the tokens of this rank, by seat; zeros after them.
  Tensor operator()(const Tensor& rows) const;
  // How many come home: one number.
  const Tensor& count() const { return count_; }

 private:
  ExpertRanks experts_;
  Tensor order_, sent_, received_, count_;
  c10::SymInt places_;
};

}  // namespace npugraph::npu_ops
