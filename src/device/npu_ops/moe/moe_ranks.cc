// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/moe/moe_ranks.h"

#include <utility>
#include <vector>

#include "device/npu_ops/moe/moe.h"
#include "device/npu_ops/quantisation/microscaling.h"
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

namespace {

using c10::SymInt;

constexpr int64_t kTile = 128;  // values with one scale in quant_mode 3

void check_dispatch(const Dispatch& how, const Tensor& x, const OptionalTensor& scales) {
  const ExpertRanks& experts = how.experts;
  experts.check();
  check_floating(experts.op, "x", x);
  check_choice(experts.op, "quant_mode", how.quant_mode, {0, 1, 2, 3, 4});
  check_choice(experts.op, "expert_token_nums_type", how.nums_type, {0, 1});
  TORCH_CHECK(how.quant_mode != 1 || scales, experts.op, ": quant_mode 1 asks for scales");
  TORCH_CHECK(how.quant_mode < 3 || how.y_dtype, experts.op, ": quant_mode ", how.quant_mode, " asks for y_dtype");
  if (how.global_bs == 0) return;
  TORCH_CHECK(how.global_bs % experts.size == 0 && x.sym_size(0) <= how.global_bs / experts.size, experts.op,
              ": global_bs is ", how.global_bs, ", but x has ", x.sym_size(0), " rows on one of ", experts.size,
              " ranks");
}

// Multiplies rows by `scales` before they are quantised. `scales` is one number, one for each column, or a row of these
// for each shared expert, then for each other one.
Tensor scaled_rows(const Dispatch& how, const Tensor& rows, const OptionalTensor& scales, const Tensor& seats) {
  const ExpertRanks& experts = how.experts;
  if (!scales) return wide(rows);
  if (scales->dim() < 2) return wide(rows) * wide(*scales);
  const int64_t shared = experts.shared_slots();
  TORCH_CHECK(scales->sym_size(0) == shared + experts.experts, experts.op, ": scales has ", scales->sym_size(0),
              " rows, allowed is one for each of ", shared + experts.experts, " experts");
  Tensor expert = seats.clamp_max(experts.seats() - 1) - (experts.shared_ranks - shared);
  if (shared > 0) {
    const Tensor of_shared = seats.floor_divide(experts.ranks_of_shared());
    expert = at::where(seats < experts.shared_ranks, of_shared, expert);
  }
  return wide(rows) * wide(*scales).index_select(0, expert);
}

Quantised by_tiles(const char* op, const Tensor& exact, const QuantType& type) {
  const SymInt size = exact.sym_size(-1), tiles = (size + kTile - 1) / kTile;
  const Tensor whole = zero_padded(exact, 1, tiles * kTile).unflatten_symint(-1, {tiles, kTile});
  const Quantised out = dynamically_quantised(op, whole, -1, type);
  return {out.values.flatten(-2).narrow_symint(-1, 0, size), out.scale};
}

Quantised quantised_rows(const Dispatch& how, const Tensor& rows, const OptionalTensor& scales, const Tensor& seats) {
  const char* op = how.experts.op;
  const Tensor no_scale = rows.new_empty({0}, at::kFloat);
  if (how.quant_mode == 0) return {rows, no_scale};
  const Tensor exact = scaled_rows(how, rows, scales, seats);
  if (how.quant_mode == 4) {
    const Blocks blocks = to_blocks(op, exact, 1, element_type(op, "y_dtype", *how.y_dtype));
    return {blocks.values, blocks.scale.flatten(1)};
  }
  const QuantType type = quant_type(op, "y_dtype", how.y_dtype);
  if (how.quant_mode == 3) return by_tiles(op, exact, type);
  return how.quant_mode == 1 ? Quantised{quantised(op, exact, type), no_scale}
                             : dynamically_quantised(op, exact, -1, type);
}

// torch has no index_select of floats of eight bits, so they are moved as bytes.
Tensor as_bytes(const Tensor& rows) {
  return rows.is_floating_point() && rows.element_size() == 1 ? rows.view(at::kByte) : rows;
}
Tensor as_before(const Tensor& bytes, const Tensor& before) {
  return bytes.scalar_type() == before.scalar_type() ? bytes : bytes.view(before.scalar_type());
}

// The rank, token and slot of each row.
Tensor notes_of_rows(const Tensor& pairs, int64_t rank, const SymInt& slots) {
  const Tensor some = pairs >= 0;
  const Tensor pair = pairs.clamp_min(0);
  const Tensor token = pair.floor_divide(at::Scalar(slots)) * some;
  const Tensor slot = pair.remainder(at::Scalar(slots)) * some;
  return at::stack({some * rank, token, slot}, 1).to(at::kInt);
}

// The weight of each slot; shared experts have 1.
Tensor weights_of_slots(const ExpertRanks& experts, const Tensor& expert_scales) {
  const Tensor chosen = wide(expert_scales);
  if (experts.shared_slots() == 0) return chosen.reshape({-1, 1});
  const SymInt tokens = chosen.sym_size(0);
  return at::cat({chosen, chosen.new_ones_symint({tokens, experts.shared_slots()})}, 1).reshape({-1, 1});
}

// `pairs` for `rows` rows; -1 for rows without a pair.
Tensor resized(const Tensor& pairs, const SymInt& rows) {
  return longer(pairs, 0, (rows - pairs.sym_size(0)).max(0), -1).slice_symint(0, 0, rows);
}

// `counts` of the rows of each seat and rank, with zeros where servers of eight devices note the ways of rows: two for
// each pair of each of the other servers.
Tensor with_ways(const Tensor& counts, int64_t ranks, const SymInt& pairs) {
  constexpr int64_t kRanksOfServer = 8;
  return longer(counts, 0, 2 * pairs * (ranks / kRanksOfServer));
}

// The position of each of `keys` among the equal ones, int32.
Tensor places_among_equals(const Tensor& keys, const Tensor& order, const Tensor& counts) {
  const Tensor starts = counts.cumsum(0) - counts;
  const Tensor within = count_up(order, order.sym_size(0)) - starts.index_select(0, keys.index_select(0, order));
  return within.index_select(0, inverse_of(order)).to(at::kInt);
}

}  // namespace

SymInt tokens_of_all(const Dispatch& how, const Tensor& x) {
  return how.global_bs == 0 ? x.sym_size(0) * how.experts.size : SymInt(how.global_bs);
}

Outgoing outgoing(const Dispatch& how, const Tensor& x, const Tensor& expert_ids, const OptionalTensor& scales,
                  const OptionalTensor& mask) {
  check_dispatch(how, x, scales);
  const ExpertRanks& experts = how.experts;
  const Tensor seats = experts.seats_of(expert_ids, mask), keys = seats.reshape(-1);
  const SymInt k = expert_ids.sym_size(1), slots = seats.sym_size(1);
  const Tensor order = rising_places(keys);
  const Tensor all_counts = counts_of(keys, experts.seats() + 1);
  const Tensor going = keys.index_select(0, order) < experts.seats();
  const Tensor sorted = order.masked_fill(going.logical_not(), -1);
  const Tensor pairs = experts.is_alone() ? resized(sorted, experts.capacity(tokens_of_all(how, x), k)) : sorted;
  const Tensor rows = rows_or_zeros(x, pairs.floor_divide(at::Scalar(slots)), pairs >= 0);
  Outgoing out = {.pairs = pairs, .counts = all_counts.narrow(0, 0, experts.seats()), .within = {}, .values = {}};
  out.values = quantised_rows(how, rows, scales, keys.index_select(0, pairs.clamp_min(0)));
  if (!how.notes_of_rows)
    out.within = places_among_equals(keys, order, all_counts).view_symint({-1, slots}).slice_symint(1, 0, k);
  return out;
}

Dispatched delivered(const Dispatch& how, const Outgoing& outgoing, const SymInt& tokens, const SymInt& k,
                     const OptionalTensor& expert_scales) {
  const ExpertRanks& experts = how.experts;
  const Quantised& values = outgoing.values;
  const Tensor& pairs = outgoing.pairs;
  // The tensors that are sent with rows. Results that are not sent are empty.
  const Tensor nothing = pairs.new_empty({0}, at::kFloat);
  std::vector<Tensor> going_rows = {as_bytes(values.values)};
  if (how.quant_mode >= 2) going_rows.push_back(as_bytes(values.scale));
  if (how.notes_of_rows) going_rows.push_back(notes_of_rows(pairs, experts.rank, k + experts.shared_slots()));
  if (expert_scales)
    going_rows.push_back(rows_or_zeros(weights_of_slots(experts, *expert_scales), pairs, pairs >= 0).squeeze(-1));
  const Arrived arrived = sent_to_experts(experts, std::move(going_rows), outgoing.counts, tokens, k);
  auto next = arrived.rows.begin();

  const Tensor expand_x = as_before(*next++, values.values);
  const Tensor row_scales = how.quant_mode >= 2 ? as_before(*next++, values.scale)
                                                : expand_x.new_zeros_symint({expand_x.sym_size(0)}, at::kFloat);
  const Tensor notes = how.notes_of_rows ? at::constant_pad_nd(*next++, {0, kNotesOfRow - 3}) : outgoing.within;
  const Tensor nums = arrived.counts.sum(0);
  const Tensor ends = arrived.counts.t().reshape(-1).cumsum(0).to(at::kInt);
  return {expand_x,
          row_scales,
          notes.reshape(-1),
          how.nums_type == 0 ? nums.cumsum(0) : nums,
          expert_scales ? with_ways(ends, experts.size, tokens * k) : ends,
          nums.sum(0, /*keepdim=*/true).to(at::kInt),
          expert_scales ? *next : nothing};
}

Dispatched dispatched(const Dispatch& how, const Tensor& x, const Tensor& expert_ids, const OptionalTensor& scales,
                      const OptionalTensor& mask, const OptionalTensor& expert_scales) {
  return delivered(how, outgoing(how, x, expert_ids, scales, mask), tokens_of_all(how, x), expert_ids.sym_size(1),
                   expert_scales);
}

namespace {

using c10::SymInt;

// [tokens, 1]: the sum of the weights with which tokens choose one of `count` experts from number `first` on.
Tensor weight_of(const Tensor& expert_ids, const Tensor& expert_scales, int64_t first, int64_t count) {
  const Tensor chosen = (expert_ids >= first).logical_and(expert_ids < first + count);
  return (wide(expert_scales) * chosen).sum(1, /*keepdim=*/true);
}

}  // namespace

Home home_by_places(const ExpertRanks& experts, const Tensor& expand_x, const Tensor& expert_ids, const Tensor& within,
                    const Tensor& ends, const OptionalTensor& mask) {
  const Tensor seats = experts.seats_of(expert_ids, mask);
  const Tensor counts = counts_of(seats, experts.seats() + 1), valid = seats < experts.seats();
  const Tensor starts = (counts.cumsum(0) - counts).index_select(0, seats.reshape(-1)).view_symint(seats.sym_sizes());
  Tensor place = within.to(at::kLong).view_symint(expert_ids.sym_sizes());
  if (experts.shared_slots() > 0) {
    const Tensor shared = valid.slice_symint(1, expert_ids.sym_size(1));
    place = at::cat({place, shared.to(at::kLong).cumsum(0) - 1}, 1);
  }
  return {sent_home(experts, {expand_x}, ends, seats.sym_numel()).rows[0], starts + place, valid};
}

Home home_by_notes(const ExpertRanks& experts, const Tensor& expand_x, const Tensor& expert_ids, const Tensor& notes,
                   const Tensor& ends) {
  const SymInt slots = expert_ids.sym_size(1) + experts.shared_slots(), pairs = expert_ids.sym_size(0) * slots;
  const Tensor of_rows = notes.unflatten_symint(0, {-1, kNotesOfRow}).narrow(1, 1, 2);
  return home_of(sent_home(experts, {expand_x, of_rows}, ends, pairs), expert_ids.sym_size(0), slots);
}

Home home_of(const Arrived& home, const SymInt& tokens, const SymInt& slots) {
  const SymInt pairs = tokens * slots;
  const Tensor table = home.rows[1].to(at::kLong);
  const Tensor row = count_up(table, table.sym_size(0));
  const Tensor pair = table.select(1, 0) * at::Scalar(slots) + table.select(1, 1);
  const Tensor used = row < home.counts.sum();
  const Tensor target = at::where(used, pair, at::scalar_tensor(at::Scalar(pairs), pair.options()));
  const Tensor places = row.new_full_symint({pairs + 1}, -1).scatter(0, target, row).slice_symint(0, 0, pairs);
  const Tensor shaped = places.view_symint({tokens, slots});
  return {home.rows[0], shaped, shaped >= 0};
}

void SpecialExperts::check(const char* op) const {
  TORCH_CHECK(copy + constant == 0 || ori_x, op, ": copy_expert_num and const_expert_num ask for ori_x");
  if (constant == 0) return;
  TORCH_CHECK(alpha_1 && alpha_2 && v, op,
              ": const_expert_num asks for const_expert_alpha_1, const_expert_alpha_2 and const_expert_v");
  for (const OptionalTensor* alpha : {&alpha_1, &alpha_2})
    TORCH_CHECK((*alpha)->sym_numel() == constant, op, ": const_expert_alpha_1 and const_expert_alpha_2 must have ",
                constant, " numbers, got ", (*alpha)->sym_numel());
}

Tensor combined(const ExpertRanks& experts, const Home& home, const Tensor& expert_ids, const Tensor& expert_scales,
                const OptionalTensor& shared_x, const SpecialExperts& special) {
  const Tensor parts = rows_or_zeros(wide(home.rows), home.places, home.valid);
  Tensor weights = wide(expert_scales);
  if (experts.shared_slots() > 0)
    weights = at::cat({weights, weights.new_ones_symint({weights.sym_size(0), experts.shared_slots()})}, 1);
  Tensor out = weighted(parts, weights).sum(1);
  if (shared_x) out = out + wide(*shared_x).reshape_symint(out.sym_sizes());
  if (special.copy + special.constant == 0) return out;
  const Tensor token = wide(*special.ori_x).reshape_symint(out.sym_sizes());
  int64_t first = experts.experts + special.zero;
  if (special.copy > 0) out = out + token * weight_of(expert_ids, expert_scales, first, special.copy);
  first += special.copy;
  for (int64_t i = 0; i < special.constant; ++i) {
    const Tensor alpha_1 = wide(*special.alpha_1).reshape(-1)[i], alpha_2 = wide(*special.alpha_2).reshape(-1)[i];
    const Tensor row = alpha_1 * token + alpha_2 * wide(*special.v)[i];
    out = out + row * weight_of(expert_ids, expert_scales, first + i, 1);
  }
  return out;
}

}  // namespace npugraph::npu_ops
