// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/moe/moe_ranks.h"

#include "device/npu_ops/moe/moe.h"
#include "device/npu_ops/quantisation/quantisation.h"

namespace npugraph::npu_ops {
namespace {

using c10::SymInt;

// Which pairs, [tokens, k], go to an expert of a rank.
Tensor active_pairs(const Tensor& expert_ids, int64_t experts, const OptionalTensor& mask) {
  const Tensor real = expert_ids < experts;
  if (!mask) return real;
  const Tensor given = mask->ne(0);
  return real.logical_and(given.dim() == 1 ? given.unsqueeze(1) : given);
}

// Which tokens, [tokens, 1], go to the shared experts.
Tensor active_tokens(const Tensor& expert_ids, const OptionalTensor& mask) {
  if (!mask) return at::ones_like(expert_ids.narrow(1, 0, 1), at::kBool);
  const Tensor given = mask->ne(0);
  return given.dim() == 1 ? given.unsqueeze(1) : given.any(1, /*keepdim=*/true);
}

// Counts by seat -> [ranks, seats], with zeros where a rank has fewer seats than others.
Tensor by_rank(const ExpertRanks& experts, const Tensor& counts) {
  const int64_t seats = experts.seats_of_chosen();
  const Tensor chosen = counts.narrow(0, experts.shared_ranks, experts.experts).view({-1, seats});
  if (experts.shared_ranks == 0) return chosen;
  const Tensor shared = counts.narrow(0, 0, experts.shared_ranks).unsqueeze(1);
  return at::cat({at::constant_pad_nd(shared, {0, seats - 1}), chosen});
}

}  // namespace

ExpertRanks expert_ranks_of(const CallArguments& call) {
  return {.op = call.op(),
          .group = call.text({"group_ep"}),
          .size = call.integer({"ep_world_size"}),
          .rank = call.integer({"ep_rank_id"}),
          .tp_size = call.integer({"tp_world_size"}),
          .shard_type = call.integer({"expert_shard_type"}),
          .shared_experts = call.integer({"shared_expert_num"}),
          .shared_ranks = call.integer({"shared_expert_rank_num"}),
          .experts = call.integer({"moe_expert_num"})};
}

void ExpertRanks::check() const {
  TORCH_CHECK(size >= 1, op, ": ep_world_size is ", size, ", allowed are 1 and more");
  TORCH_CHECK(rank >= 0 && rank < size, op, ": ep_rank_id is ", rank, ", allowed are 0 to ", size - 1);
  TORCH_CHECK(tp_size <= 1, op, ": tp_world_size is ", tp_size, ", allowed are 0 and 1");
  TORCH_CHECK(shared_ranks >= 0 && shared_ranks < size, op, ": shared_expert_rank_num is ", shared_ranks, " of ", size,
              " ranks, allowed are 0 to ", size - 1);
  TORCH_CHECK(experts >= 1 && experts % (size - shared_ranks) == 0, op, ": moe_expert_num is ", experts,
              ", which must be a multiple of the ", size - shared_ranks, " ranks that have these experts");
  if (shared_ranks == 0) return;
  check_choice(op, "expert_shard_type", shard_type, {0});
  TORCH_CHECK(shared_experts >= 1 && shared_ranks % shared_experts == 0, op, ": shared_expert_num is ", shared_experts,
              ", which must divide shared_expert_rank_num, ", shared_ranks);
}

// The ranks of a shared expert share the tokens of all ranks.
SymInt ExpertRanks::capacity(const SymInt& tokens, const SymInt& k) const {
  if (rank >= shared_ranks) return tokens * k.min(own_seats());
  return tokens / size * ((size + ranks_of_shared() - 1) / ranks_of_shared());
}

Tensor ExpertRanks::seats_of(const Tensor& expert_ids, const OptionalTensor& mask) const {
  check_dims(op, "expert_ids", expert_ids, 2, 2);
  const Tensor out = active_pairs(expert_ids, experts, mask).logical_not();
  const Tensor chosen = (expert_ids.to(at::kLong) + shared_ranks).masked_fill(out, seats());
  if (shared_ranks == 0) return chosen;
  const Tensor seat = count_up(expert_ids, shared_experts) * ranks_of_shared() + rank % ranks_of_shared();
  const Tensor shared = seat.expand_symint({expert_ids.sym_size(0), shared_experts});
  return at::cat({chosen, shared.masked_fill(active_tokens(expert_ids, mask).logical_not(), seats())}, 1);
}

Arrived sent_to_experts(const ExpertRanks& experts, std::vector<Tensor> rows, const Tensor& counts,
                        const SymInt& tokens, const SymInt& k) {
  const Tensor table = by_rank(experts, counts);
  if (experts.is_alone()) return {std::move(rows), table};
  const SymInt places = experts.capacity(tokens, k);
  Arrived out = exchanged(experts.ranks(), std::move(rows), table, places, tokens);
  out.counts = out.counts.narrow(1, 0, experts.own_seats());
  const Tensor ends = out.counts.reshape(-1).cumsum(0);  // as rows come: by rank, then seat
  const Tensor seat = group_of_rows(ends, places).remainder(experts.own_seats());
  const Tensor is_used = count_up(ends, places) < ends.select(0, -1);
  const Tensor order = rising_places(seat.masked_fill(is_used.logical_not(), experts.own_seats()));
  for (Tensor& one : out.rows) one = one.index_select(0, order);
  return out;
}

Arrived sent_home(const ExpertRanks& experts, std::vector<Tensor> rows, const Tensor& given, const SymInt& places) {
  const int64_t counts = experts.own_seats() * experts.size;
  TORCH_CHECK(given.sym_numel() >= counts, experts.op, ": ep_send_counts has ", given.sym_numel(),
              " numbers, but rank ", experts.rank, " has ", counts);
  const Tensor ends = given.narrow(0, 0, counts), total = ends.slice(0, -1);
  if (experts.is_alone()) return {std::move(rows), total};
  const SymInt came = rows[0].sym_size(0);
  const Tensor is_used = count_up(ends, came) < total;
  const Tensor source = group_of_rows(ends, came).remainder(experts.size);
  const Tensor key = source.masked_fill(is_used.logical_not(), experts.size);
  const Tensor order = rising_places(key);
  for (Tensor& one : rows) one = one.index_select(0, order);
  const Tensor sent = counts_of(key, experts.size + 1).narrow(0, 0, experts.size).unsqueeze(1);
  return exchanged(experts.ranks(), std::move(rows), sent, places);
}

}  // namespace npugraph::npu_ops
