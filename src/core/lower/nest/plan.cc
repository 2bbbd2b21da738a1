// SPDX-License-Identifier: Apache-2.0
#include "lower/nest/plan.h"

#include <algorithm>
#include <numeric>

#include "ir/graph.h"
#include "lower/contains.h"
#include "lower/nest/shape.h"
#include "tensor/shape.h"

namespace npugraph::lower {

namespace {

void append(Layout& layout, const Expr& size, const std::vector<std::vector<Expr>>& strides, size_t d) {
  layout.sizes.push_back(size);
  for (size_t v = 0; v < strides.size(); ++v) layout.strides[v].push_back(strides[v][d]);
}

void append_one(Layout& layout) {
  layout.sizes.emplace_back(1);
  for (auto& of_access : layout.strides) of_access.emplace_back(0);
}

bool continues(const Layout& layout, const Expr& size, const std::vector<std::vector<Expr>>& strides, size_t d) {
  for (size_t v = 0; v < strides.size(); ++v) {
    if (!is_step_over(layout.strides[v].back(), size, strides[v][d])) return false;
  }
  return true;
}

// Whether each iteration of dimension `d` reads the same elements again, and they are too many for the cache.
bool is_large_broadcast(const Layout& layout, const std::vector<Expr>& strides, size_t d) {
  constexpr int64_t kElementsInCache = 1 << 18;
  if (!strides[d].is_int(0)) return false;
  Expr inside = 1;
  for (size_t e = d + 1; e < strides.size(); ++e) {
    if (!strides[e].is_int(0)) inside = inside * layout.sizes[e];
  }
  return inside.as_int().value_or(0) > kElementsInCache;
}

template <typename T>
void reorder(std::vector<T>& items, const std::vector<size_t>& order) {
  std::vector<T> out = items;
  for (size_t d = 0; d < order.size(); ++d) out[d] = items[order[d]];
  items = std::move(out);
}

}  // namespace

Expr product(const std::vector<Expr>& sizes, size_t begin, size_t end) {
  Expr out = 1;
  for (size_t d = begin; d < end; ++d) out = out * sizes[d];
  return out;
}

Expr ceil_div(const Expr& a, const Expr& b) { return Expr::make(ExprOp::kCeilDiv, {a, b}); }

Layout collapse(const LayoutRequest& request) {
  const auto& [space, strides, stay, row_rank, by_columns] = request;
  Layout layout{.strides = std::vector<std::vector<Expr>>(strides.size())};
  const size_t row = space.size() - row_rank;
  bool can_merge = false;
  for (size_t d = 0; d <= space.size(); ++d) {
    if (d == row && row_rank > 0) {
      if (by_columns && layout.sizes.empty()) append_one(layout);
      layout.row = layout.sizes.size();
      can_merge = false;
    }
    if (d == space.size()) break;
    layout.place.push_back(ir::kNone);
    if (space[d].is_int(1) && !stay[d]) continue;
    if (can_merge && !stay[d] && continues(layout, space[d], strides, d)) {
      layout.sizes.back() = layout.sizes.back() * space[d];
      for (size_t v = 0; v < strides.size(); ++v) layout.strides[v].back() = strides[v][d];
    } else {
      append(layout, space[d], strides, d);
    }
    can_merge = !stay[d];
    layout.place.back() = static_cast<int>(layout.sizes.size()) - 1;
  }
  if (layout.sizes.size() == layout.row) append_one(layout);
  if (row_rank == 0) layout.row = layout.sizes.size() - 1;
  return layout;
}

void put_reused_inside(Layout& layout) {
  const auto is_reused = [&](size_t d) {
    return std::any_of(layout.strides.begin(), layout.strides.end(),
                       [&](const auto& strides) { return is_large_broadcast(layout, strides, d); });
  };
  std::vector<size_t> order(layout.row);
  std::iota(order.begin(), order.end(), size_t{0});
  const auto reused = std::stable_partition(order.begin(), order.end(), [&](size_t d) { return !is_reused(d); });
  layout.reused = static_cast<size_t>(order.end() - reused);
  reorder(layout.sizes, order);
  for (auto& strides : layout.strides) reorder(strides, order);
  for (int& place : layout.place) {
    if (place == ir::kNone || place >= static_cast<int>(layout.row)) continue;
    place = static_cast<int>(std::find(order.begin(), order.end(), static_cast<size_t>(place)) - order.begin());
  }
}

namespace {

// Marks the terms that a term needs in a walk of this level, and those that are kept for it.
void need(NestPlan& plan, int id, int walk) {
  const Terms& terms = plan.terms;
  const Term& term = terms.term(id);
  const bool is_long = terms.row_length().as_int().value_or(0) > kLongestKeptRow;
  const bool may_keep = !term.row && !terms.is_by_columns() && !plan.shape.splits;
  if (may_keep && term.level < walk && term.cost >= plan.shape.keep_cost && !is_long) {
    if (plan.is_kept(id)) return;
    plan.kept.push_back(id);
    walk = term.level;
  }
  plan.needed[id] = true;
  // A row term needs its arguments at their own level.
  for (const int arg : term.args) need(plan, arg, term.row ? terms.term(arg).level : walk);
  for (const TermAccess::Index& index : term.access.indices) need(plan, index.term, walk);
  if (term.access.inside != ir::kNone) need(plan, term.access.inside, walk);
  if (term.access.part != ir::kNone) need(plan, terms.part(term.access.part).inside, walk);
}

// Chooses the terms that are computed at all, and those that are kept from one walk to the next.
void choose_terms(NestPlan& plan) {
  const Terms& terms = plan.terms;
  plan.needed.assign(terms.size(), false);
  for (const ir::ValueId result : plan.writes) {
    const TermResult& stored = terms.result(result);
    need(plan, stored.term, terms.term(stored.term).level);
    for (const TermAccess::Index& index : stored.store.indices) need(plan, index.term, 0);
  }
  const auto add_read = [&](ir::ValueId value) {
    auto& values = plan.ramps.find(value) == nullptr ? plan.reads : plan.made;
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  };
  for (int t = 0; t < terms.size(); ++t) {
    const Term& term = terms.term(t);
    if (!plan.needed[t]) continue;
    plan.last_level = std::max(plan.last_level, term.level);
    if (term.kind == Term::Kind::kLoad && term.access.value != ir::kNone) add_read(term.access.value);
  }
  for (const TermCheck& check : terms.checks()) add_read(check.index);
}

// Adds an access: its strides in the dimensions of the space, 0 where it is broadcast, and its shifts as one offset.
// Returns its index.
size_t add_access(NestPlan& plan, const TermAccess& access) {
  const Terms& terms = plan.terms;
  const std::vector<Expr> own = plan.strides_of(access.value);
  std::vector<Expr> strides(terms.space().size(), Expr(0));
  Expr offset = 0;
  for (size_t d = 0; d < access.dims.size(); ++d) {
    if (access.dims[d] == ir::kNone) continue;
    const bool steps = !access.scales.empty();
    strides[access.dims[d]] = strides[access.dims[d]] + (steps ? own[d] * access.scales[d] : own[d]);
    if (steps) offset = offset + own[d] * access.shifts[d];
  }
  for (int part = access.part; part != ir::kNone; part = terms.part(part).around) {
    offset = offset - strides[terms.part(part).dim] * terms.part(part).first;
  }
  plan.strides.push_back(std::move(strides));
  plan.offsets.push_back(std::move(offset));
  return plan.strides.size() - 1;
}

void lay_out(NestPlan& plan) {
  const Terms& terms = plan.terms;
  std::vector<bool> stay(terms.space().size(), false);
  plan.slots.assign(terms.size(), 0);
  for (int t = 0; t < terms.size(); ++t) {
    const Term& term = terms.term(t);
    if (!plan.needed[t]) continue;
    if (term.kind == Term::Kind::kPlace) stay[term.dim] = true;
    if (term.kind == Term::Kind::kLoad && term.access.value != ir::kNone) plan.slots[t] = add_access(plan, term.access);
  }
  for (const ir::ValueId id : plan.writes) plan.stores.push_back(add_access(plan, terms.result(id).store));
  const size_t row_rank = plan.sums == Sums::kImages ? stay.size() - 2 : plan.is_by_rows() ? terms.row_rank() : 0;
  plan.layout = collapse({.space = terms.space(),
                          .strides = plan.strides,
                          .stay = stay,
                          .row_rank = row_rank,
                          .by_columns = terms.is_by_columns()});
  if (!plan.is_epilogue() && !terms.is_by_columns() && !plan.shape.splits) put_reused_inside(plan.layout);
}

}  // namespace

// A row must be one dimension. The rows of a matrix must be one dimension too, because they are evenly spaced.
bool NestPlan::has_rows_of_sums() const {
  return layout.sizes.size() == layout.row + 1 && (sums == Sums::kImages || layout.row <= 1);
}

std::vector<Expr> NestPlan::strides_of(ir::ValueId value) const {
  const Ramp* made = ramps.find(value);
  if (made == nullptr) return strides_of_memory(value);
  const ir::TensorType& type = graph.value(value).tensor();
  return made->is_same_everywhere() ? std::vector<Expr>(type.sizes.size(), Expr(0)) : type.strides;
}

std::optional<size_t> NestPlan::tile() const {
  if (terms.tile() == ir::kNone) return std::nullopt;
  const int place = layout.place[static_cast<size_t>(terms.tile())];
  if (place == ir::kNone || static_cast<size_t>(place) + 1 == layout.sizes.size()) return std::nullopt;
  return static_cast<size_t>(place);
}

bool NestPlan::is_kept(int term) const { return contains(kept, term); }

std::vector<int> NestPlan::reductions_of(int level) const {
  std::vector<int> reductions;
  for (int t = 0; t < terms.size(); ++t) {
    const Term& term = terms.term(t);
    if (needed[t] && term.kind == Term::Kind::kReduce && term.level == level + 1) reductions.push_back(t);
  }
  return reductions;
}

bool NestPlan::has_work(int level) const {
  const auto is_level = [&](int t) { return terms.term(t).level == level; };
  return !reductions_of(level).empty() || std::any_of(kept.begin(), kept.end(), is_level) ||
         std::any_of(writes.begin(), writes.end(), [&](ir::ValueId result) {
           const int t = terms.result(result).term;
           return !terms.term(t).row && is_level(t);
         });
}

std::vector<std::pair<size_t, size_t>> NestPlan::shares() const {
  std::vector<std::pair<size_t, size_t>> found;
  if (last_level > 0) return found;
  const auto is_same_place = [&](ir::ValueId value, const TermAccess& store) {
    bool same = true;
    for (int t = 0; t < terms.size(); ++t) {
      const TermAccess& access = terms.term(t).access;
      if (needed[t] && access.value == value) same = same && access.is_plain() && access.dims == store.dims;
    }
    const auto is_index = [&](const TermCheck& check) { return check.index == value; };
    return same && std::none_of(terms.checks().begin(), terms.checks().end(), is_index);
  };
  for (size_t w = 0; w < writes.size(); ++w) {
    const TermAccess& store = terms.result(writes[w]).store;
    for (size_t r = 0; store.is_plain() && r < reads.size(); ++r) {
      if (is_same_place(reads[r], store)) found.emplace_back(w, r);
    }
  }
  return found;
}

NestPlan plan_nest(const ir::Graph& graph, const Terms& terms, const std::vector<ir::ValueId>& results,
                   const StridesOf& strides_of, const Ramps& ramps, const NestShape& shape, std::optional<Sums> sums) {
  NestPlan plan{.graph = graph,
                .terms = terms,
                .strides_of_memory = strides_of,
                .ramps = ramps,
                .shape = shape,
                .sums = sums,
                .writes = results};
  choose_terms(plan);
  lay_out(plan);
  return plan;
}

}  // namespace npugraph::lower
