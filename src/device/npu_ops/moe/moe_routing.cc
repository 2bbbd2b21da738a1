// SPDX-License-Identifier: Apache-2.0
// Orders rows of tokens by the experts that they go to.
#include <algorithm>
#include <limits>

#include "device/npu_ops/families.h"
#include "device/npu_ops/moe/moe.h"
#include "device/npu_ops/quantisation/quantisation.h"

namespace npugraph::npu_ops {
namespace {

using c10::SymInt;

void check_pairs(const char* op, const Tensor& x, const Tensor& expert_idx) {
  check_dims(op, "x", x, 2, 2);
  check_dims(op, "expert_idx", expert_idx, 2, 2);
  check_type(op, "expert_idx", expert_idx, {at::kInt, at::kLong});
  TORCH_CHECK(expert_idx.sym_size(0) == x.sym_size(0), op, ": expert_idx has ", expert_idx.sym_size(0), " rows, x has ",
              x.sym_size(0));
}

Three moe_init_routing(const Tensor& x, const Tensor& row_idx, const Tensor& expert_idx, int64_t active_num) {
  constexpr const char* kOp = "npu_moe_init_routing";
  check_pairs(kOp, x, expert_idx);
  check_same_shape(kOp, "row_idx", row_idx, "expert_idx", expert_idx);
  TORCH_CHECK(active_num >= 0, kOp, ": active_num is ", active_num, ", allowed are 0 and more");
  const Tensor experts = expert_idx.reshape(-1);
  const Tensor order = rising_places(experts);
  const Tensor rows = row_idx.reshape(-1).index_select(0, order).to(at::kLong);
  const SymInt kept = x.sym_size(0).min(active_num) * expert_idx.sym_size(1);
  const Tensor tokens = rows.slice_symint(0, 0, kept).remainder(at::Scalar(x.sym_size(0)));
  return {x.index_select(0, tokens), inverse_of(rows).to(at::kInt), experts.index_select(0, order).to(at::kInt)};
}

// All pairs, ordered by expert. Pairs of experts outside [first, end) are not active and come last; of these, those of
// experts after the range come first.
struct Sorted {
  Tensor places;   // number of the i-th pair
  Tensor active;   // whether the i-th pair is active
  Tensor rank;     // position of each pair in this order
  Tensor counts;   // number of active pairs of each expert of the range
  Tensor experts;  // expert of the i-th pair minus `first`; end - first if not active
};

Sorted sorted_pairs(const Tensor& expert_idx, int64_t first, int64_t end) {
  const Tensor ids = expert_idx.reshape(-1).to(at::kLong) - first;
  const int64_t range = end - first;
  const Tensor ranked = ids.masked_fill(ids < 0, std::numeric_limits<int64_t>::max());
  const Tensor keys = ranked.clamp_max(range);
  Sorted out;
  out.places = rising_places(ranked);
  out.experts = keys.index_select(0, out.places);
  out.active = out.experts < range;
  out.rank = inverse_of(out.places);
  out.counts = counts_of(keys, range + 1).narrow(0, 0, range);
  return out;
}

// The row of each pair in a table of `capacity` rows for each expert of the range; -1 if its expert has no room for it.
Tensor places_in_table(const Sorted& sorted, int64_t capacity) {
  const Tensor starts = at::cat({sorted.counts.new_zeros({1}), sorted.counts.cumsum(0)});
  const Tensor within = count_up(sorted.places, sorted.places.sym_size(0)) - starts.index_select(0, sorted.experts);
  const Tensor fits = sorted.active.logical_and(within < capacity);
  const Tensor places = (sorted.experts * capacity + within).masked_fill(fits.logical_not(), -1);
  return places.index_select(0, sorted.rank);
}

// The pair in each of `rows` rows, given the row of each pair (-1: none); -1 for rows without a pair.
Tensor pairs_of_rows(const Tensor& rows_of_pairs, const SymInt& rows) {
  const Tensor target =
      at::where(rows_of_pairs < 0, at::scalar_tensor(at::Scalar(rows), rows_of_pairs.options()), rows_of_pairs);
  const Tensor pairs = count_up(rows_of_pairs, rows_of_pairs.sym_size(0));
  return target.new_full_symint({rows + 1}, -1).scatter(0, target, pairs).slice_symint(0, 0, rows);
}

enum QuantMode : int64_t { kNone = -1, kStatic = 0, kDynamic = 1 };

// Quantises expanded rows, whose experts are `experts`. `scale` has one row of factors for each expert, or one for all.
Quantised int8_rows(const char* op, const Tensor& rows, const Tensor& experts, const OptionalTensor& scale,
                    const OptionalTensor& offset, int64_t mode) {
  check_floating(op, "x", rows);
  if (mode == kStatic) {
    TORCH_CHECK(scale && offset, op, ": quant_mode 0 asks for scale and offset");
    return {quantised(op, wide(rows) * wide(*scale) + wide(*offset), QuantType{}), rows.new_empty({0}, at::kFloat)};
  }
  if (!scale) return dynamically_quantised(op, wide(rows), -1, QuantType{});
  check_dims(op, "scale", *scale, 2, 2);
  const Tensor factors = wide(*scale);
  const Tensor smooth = scale->sym_size(0) == 1 ? factors : factors.index_select(0, experts);
  return dynamically_quantised(op, wide(rows) * smooth, -1, QuantType{});
}

// The first results of routing: rows, the row of each pair (-1: none), the pair of each row, and the
// scales of quantisation.
struct Expanded {
  Tensor rows, places, pairs, scale;
};

struct Routing {
  const char* op;
  int64_t first, end;     // the range of experts
  int64_t drop_pad_mode;  // 1: `capacity` rows for each expert
  int64_t active_num;     // number of rows without capacity, if positive
  int64_t capacity, quant_mode;
};

Expanded expanded_rows(const Routing& how, const Tensor& x, const Tensor& expert_idx, const Sorted& sorted,
                       const OptionalTensor& scale, const OptionalTensor& offset) {
  const SymInt all = expert_idx.sym_numel();
  const int64_t range = how.end - how.first;
  const bool table = how.drop_pad_mode == 1;
  const SymInt rows = table ? SymInt(range * how.capacity) : how.active_num > 0 ? all.min(how.active_num) : all;
  Expanded out;
  out.places = table ? places_in_table(sorted, how.capacity)
                     : sorted.rank.masked_fill(sorted.active.index_select(0, sorted.rank).logical_not(), -1);
  out.pairs = table ? pairs_of_rows(out.places, rows)
                    : sorted.places.masked_fill(sorted.active.logical_not(), -1).slice_symint(0, 0, rows);
  const Tensor valid = out.pairs >= 0;
  const Tensor tokens = out.pairs.floor_divide(at::Scalar(expert_idx.sym_size(1)));
  out.rows = rows_or_zeros(x, tokens, valid);
  if (how.quant_mode != kNone) {
    const Tensor ids = (expert_idx.reshape(-1).to(at::kLong) - how.first).clamp(0, range - 1);
    const Tensor experts = rows_or_zeros(ids.unsqueeze(-1), out.pairs, valid).squeeze(-1);
    const Quantised q = int8_rows(how.op, out.rows, experts, scale, offset, how.quant_mode);
    out.rows = at::where(valid.unsqueeze(-1), q.values, at::zeros({}, q.values.options()));
    out.scale = q.scale;
  } else {
    out.scale =
        scale ? rows_or_zeros(wide(*scale).reshape({-1, 1}), tokens, valid).squeeze(-1) : x.new_empty({0}, at::kFloat);
  }
  if (table) out.rows = out.rows.unflatten(0, {range, how.capacity});
  return out;
}

void check_routing(const Routing& how, const Tensor& x, const Tensor& expert_idx) {
  check_pairs(how.op, x, expert_idx);
  check_choice(how.op, "drop_pad_mode", how.drop_pad_mode, {0, 1});
  check_choice(how.op, "quant_mode", how.quant_mode, {kNone, kStatic, kDynamic});
  TORCH_CHECK(how.first >= 0 && how.end > how.first, how.op, ": the experts are those of [", how.first, ", ", how.end,
              "), which are none");
  TORCH_CHECK(how.drop_pad_mode == 0 || how.capacity > 0, how.op, ": expert_capacity is ", how.capacity,
              ", but drop_pad_mode 1 asks for a positive one");
}

// Numbers and counts of the experts that have pairs, in ascending order, followed by zeros.
Tensor keys_and_values(const Tensor& counts, int64_t first, int64_t rows) {
  const Tensor order = rising_places((counts == 0).to(at::kInt));
  const Tensor ordered = counts.index_select(0, order);
  const Tensor pairs = at::stack({(order + first) * (ordered > 0), ordered}, 1);
  return at::constant_pad_nd(pairs, {0, 0, 0, rows - counts.size(0)});
}

Four moe_init_routing_v2(const Tensor& x, const Tensor& expert_idx, const OptionalTensor& scale,
                         const OptionalTensor& offset, int64_t active_num, int64_t expert_capacity, int64_t expert_num,
                         int64_t drop_pad_mode, int64_t expert_tokens_num_type, bool, int64_t quant_mode,
                         at::IntArrayRef range, int64_t row_idx_type, std::optional<int64_t>) {
  constexpr const char* kOp = "npu_moe_init_routing_v2";
  TORCH_CHECK(range.empty() || range.size() == 2, kOp, ": active_expert_range has ", range.size(),
              " elements, allowed are 0 and 2");
  const int64_t first = range.empty() ? 0 : range[0], end = range.empty() ? expert_num : range[1];
  const Routing how = {kOp, first, end, drop_pad_mode, active_num, expert_capacity, quant_mode};
  check_routing(how, x, expert_idx);
  check_choice(kOp, "expert_tokens_num_type", expert_tokens_num_type, {0, 1, 2});
  check_choice(kOp, "row_idx_type", row_idx_type, {0, 1});
  const Sorted sorted = sorted_pairs(expert_idx, first, end);
  const Expanded out = expanded_rows(how, x, expert_idx, sorted, scale, offset);
  const Tensor tokens = expert_tokens_num_type == 0 ? sorted.counts.cumsum(0)
                        : expert_tokens_num_type == 1
                            ? sorted.counts.clone()
                            : keys_and_values(sorted.counts, first, std::max(expert_num, end - first));
  return {out.rows, (row_idx_type == 0 ? out.places : sorted.places).to(at::kInt), tokens, out.scale};
}

Five moe_init_routing_quant(const Tensor& x, const Tensor& expert_idx, const OptionalTensor& scale,
                            const OptionalTensor& offset, int64_t active_num, int64_t expert_capacity,
                            int64_t expert_num, int64_t drop_pad_mode, int64_t expert_tokens_num_mode,
                            bool before_capacity, int64_t quant_mode) {
  constexpr const char* kOp = "npu_moe_init_routing_quant";
  const Routing how = {kOp, 0, expert_num, drop_pad_mode, active_num, expert_capacity, quant_mode};
  check_choice(kOp, "quant_mode", quant_mode, {kStatic, kDynamic});
  check_choice(kOp, "expert_tokens_num_mode", expert_tokens_num_mode, {0, 1, 2});
  check_routing(how, x, expert_idx);
  const Sorted sorted = sorted_pairs(expert_idx, 0, expert_num);
  const Expanded out = expanded_rows(how, x, expert_idx, sorted, scale, offset);
  const Tensor none = x.new_empty({0}, at::kInt);
  const bool counted = drop_pad_mode == 0 && expert_tokens_num_mode != 0;
  const Tensor tokens = !counted                      ? none
                        : expert_tokens_num_mode == 1 ? sorted.counts.cumsum(0).to(at::kInt)
                                                      : sorted.counts.to(at::kInt);
  const Tensor before = drop_pad_mode == 1 && before_capacity ? sorted.counts.to(at::kInt) : none.clone();
  return {out.rows, out.places.to(at::kInt), tokens, before, out.scale};
}

}  // namespace

void define_moe_routing(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_moe_init_routing(Tensor x, Tensor row_idx, Tensor expert_idx, int active_num) -> (Tensor, "
                "Tensor, Tensor)",
      .kernel = parts(&moe_init_routing),
      .definition = "Gathers the rows of tokens in the order of their experts, by a stable sort of the N * K pairs of "
                    "token and expert. x is [N, H]; expert_idx [N, K] holds the experts of each token; row_idx [N, K] "
                    "holds the number of each pair, as npu_moe_gating_top_k_softmax returns it, and a pair takes row "
                    "row_idx % N of x. Results: the rows of the first min(active_num, N) * K pairs in this order; for "
                    "each number of a pair its position in this order, [N * K] in int32; and the experts in this "
                    "order, [N * K] in int32.",
  });
  library.add({
      .schema = "npu::npu_moe_init_routing_v2(Tensor x, Tensor expert_idx, *, Tensor? scale=None, Tensor? offset=None, "
                "int active_num=-1, int expert_capacity=-1, int expert_num=-1, int drop_pad_mode=0, int "
                "expert_tokens_num_type=0, bool expert_tokens_num_flag=False, int quant_mode=-1, int[2] "
                "active_expert_range=[], int row_idx_type=0, int? x_dtype=None) -> (Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&moe_init_routing_v2),
      .definition = "Gathers the rows of tokens in the order of their experts, by a stable sort of the N * K pairs of "
                    "token and expert. x is [N, H], expert_idx is [N, K]. Pairs of experts in active_expert_range, "
                    "[start, end), by default [0, expert_num), are active. The others come last, those of experts from "
                    "end on first. Results: (1) the rows of the active pairs, then zeros, [N * K, H] or at most "
                    "active_num rows if that is positive; with drop_pad_mode 1 [experts, expert_capacity, H], where "
                    "zeros fill up experts with fewer pairs and further pairs are dropped. (2) int32 [N * K]: with "
                    "row_idx_type 0 the row of each pair, or -1 if it has none; with row_idx_type 1 the pairs in "
                    "sorted order. (3) int64, the number of pairs of each active expert before drops: cumulative "
                    "(expert_tokens_num_type 0), plain (1), or as rows [expert, number] of the experts that have any, "
                    "followed by zeros (2). (4) float32, a scale for each row. quant_mode -1 keeps the type of x, and "
                    "the scales are those of the tokens in scale [N], empty without scale. quant_mode 0 gives int8 "
                    "round(x * scale + offset), and no scales. quant_mode 1 multiplies rows by scale, [experts, H] or "
                    "[1, H], if given, and quantises each dynamically to int8 with the scale max(abs(row)) / 127. "
                    "expert_tokens_num_flag and x_dtype are ignored.",
  });
  library.add({
      .schema = "npu::npu_moe_init_routing_quant(Tensor x, Tensor expert_idx, *, Tensor? scale=None, Tensor? "
                "offset=None, int active_num=1024, int expert_capacity=0, int expert_num=256, int drop_pad_mode=0, int "
                "expert_tokens_num_mode=0, bool expert_tokens_before_capacity_flag=False, int quant_mode=1) -> "
                "(Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&moe_init_routing_quant),
      .definition = "npu_moe_init_routing_v2 of all experts, with rows in int8 (quant_mode 0 or 1). Results: the rows; "
                    "the row of each pair, or -1, in int32; the number of pairs of each expert in int32, cumulative "
                    "with expert_tokens_num_mode 1 and plain with 2, empty with 0 or drop_pad_mode 1; the plain "
                    "numbers before drops in int32 with drop_pad_mode 1 and expert_tokens_before_capacity_flag, else "
                    "empty; and the scales of rows in float32, empty with quant_mode 0.",
  });
}

}  // namespace npugraph::npu_ops
