// SPDX-License-Identifier: Apache-2.0
#include "lower/nest/walks.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "lower/nest/shape.h"

namespace npugraph::lower {

using loop::Value;

using loop::BufferId;

void NestPlace::set_outer(const Layout& layout, const Expr& element, size_t end) {
  Expr rest = element;
  for (size_t d = end; d-- > 0;) {
    at[d] = d == 0 ? rest : Expr::make(ExprOp::kMod, {rest, layout.sizes[d]});
    rest = Expr::make(ExprOp::kFloorDiv, {rest, layout.sizes[d]});
  }
}

void NestPlace::to_first(const Layout& layout) {
  for (size_t d = layout.row; d < at.size(); ++d) at[d] = 0;
}

NestValues::NestValues(const NestPlan& plan, loop::Builder& builder, NestPlace& place)
    : plan_(plan), builder_(builder), place_(place) {
  declare();
}

void NestValues::declare_symbols(const Expr& e) {
  std::vector<std::string> names;
  collect_symbols(e, names);
  for (const std::string& name : names) {
    const auto is_named = [&](const Expr& symbol) { return symbol.symbol_name() == name; };
    if (std::any_of(symbols_.begin(), symbols_.end(), is_named)) continue;
    const auto& declared = plan_.graph.symbols;
    const auto symbol =
        std::find_if(declared.begin(), declared.end(), [&](const ir::Symbol& s) { return s.name == name; });
    NG_CHECK(symbol != declared.end(), "undeclared symbol ", name);
    symbols_.push_back(builder_.scalar(name, symbol->kind));
  }
}

void NestValues::declare() {
  const auto dtype = [&](ir::ValueId id) { return plan_.graph.value(id).tensor().dtype; };
  if (plan_.is_epilogue()) sums_ = builder_.in("sums", plan_.terms.sums_type());
  for (const ir::ValueId id : plan_.reads) in_.emplace(id, builder_.in(cat("x", in_.size()), dtype(id)));
  for (const ir::ValueId id : plan_.writes) out_.push_back(builder_.out(cat("y", out_.size()), dtype(id)));
  for (const Expr& size : plan_.layout.sizes) declare_symbols(size);
  for (const Expr& size : plan_.terms.space()) declare_symbols(size);
  for (const auto& strides : plan_.strides)
    for (const Expr& stride : strides) declare_symbols(stride);
  for (const Expr& offset : plan_.offsets) declare_symbols(offset);
  for (const Expr& scalar : plan_.terms.scalars()) declare_symbols(scalar);
  const auto declare_type = [&](ir::ValueId id) {
    for (const Expr& size : plan_.graph.value(id).tensor().sizes) declare_symbols(size);
    for (const Expr& stride : plan_.strides_of(id)) declare_symbols(stride);
  };
  for (const ir::ValueId id : plan_.made) {
    declare_symbols(plan_.ramps.find(id)->first);
    declare_symbols(plan_.ramps.find(id)->step);
    declare_type(id);
  }
  for (const TermCheck& check : plan_.terms.checks()) declare_type(check.index);
  for (const ir::ValueId id : plan_.reads) declare_type(id);
  for (const ir::ValueId id : plan_.writes) declare_type(id);
}

// The index of the current element, or row, in the memory of a value.
Expr NestValues::index_of(const TermAccess& access, size_t slot) {
  Expr index = plan_.offsets[slot];
  for (size_t d = 0; d < place_.at.size(); ++d) index = index + place_.at[d] * plan_.layout.strides[slot][d];
  if (access.indices.empty()) return index;
  const std::vector<Expr> strides = plan_.strides_of(access.value);
  for (const auto& [dim, term] : access.indices) index = index + loop::as_index(value_of(term)) * strides[dim];
  return index;
}

// The place of the current element in its row.
Expr NestValues::place_in_row() const {
  Expr place = 0;
  for (size_t d = plan_.layout.row; d < place_.at.size(); ++d) place = place * plan_.layout.sizes[d] + place_.at[d];
  return place;
}

// Writes one loop per dimension of the index, the last one in lanes.
void NestValues::write_check(const TermCheck& check) {
  const auto& sizes = plan_.graph.value(check.index).tensor().sizes;
  const std::vector<Expr> strides = plan_.strides_of(check.index);
  const auto write = [&](auto self, size_t d, const Expr& before) -> void {
    const auto body = [&](const Expr& i) {
      const Expr at = before + i * strides[d];
      if (d + 1 < sizes.size()) return self(self, d + 1, at);
      const Value place = loop::cast(element(check.index, at), DType::kI64);
      const Value limit = builder_.index(check.limit);
      const Value fits = check.from_end ? (place < limit) & (place >= -limit) : (place < limit) & (place >= 0.0);
      builder_.check(fits, check.message, check.message.find('%') == std::string::npos ? Value{} : place);
    };
    if (d + 1 < sizes.size())
      builder_.serial_for(sizes[d], body);
    else
      builder_.vector_for(sizes[d], body);
  };
  write(write, 0, 0);
}

void NestValues::stage_tile(size_t tile, const Expr& first_row, const Expr& rows) {
  const int64_t side = plan_.shape.tile;
  for (int t = 0; t < plan_.terms.size(); ++t) {
    const Term& term = plan_.terms.term(t);
    if (!plan_.needed[t] || term.kind != Term::Kind::kLoad || term.row || !term.access.is_plain()) continue;
    if (!in_.contains(term.access.value)) continue;
    const std::vector<Expr>& strides = plan_.layout.strides[plan_.slots[t]];
    if (strides.back().is_int(0) || strides.back().is_int(1) || !strides[tile].is_int(1)) continue;
    const DType dtype = plan_.graph.value(term.access.value).tensor().dtype;
    const BufferId local = staged_.emplace(t, builder_.local(cat("tile", t), dtype, Expr(side * side))).first->second;
    builder_.serial_for(place_.length, [&](const Expr& c) {
      builder_.vector_for(rows, [&](const Expr& r) {
        place_.at.back() = place_.first + c;
        place_.at[tile] = first_row + r;
        const Expr index = index_of(term.access, plan_.slots[t]);
        builder_.store(local, c * side + r, builder_.load(in_.at(term.access.value), index));
      });
    });
  }
}

void NestValues::compute_row_terms(int level) {
  place_.walk = -1;
  place_.to_first(plan_.layout);
  for (int t = 0; t < plan_.terms.size(); ++t) {
    const Term& term = plan_.terms.term(t);
    if (plan_.needed[t] && term.row && term.level == level) value_of(t);
  }
}

void NestValues::keep_terms(int level) {
  const std::vector<Expr>& sizes = plan_.layout.sizes;
  for (const int t : plan_.kept) {
    if (plan_.terms.term(t).level != level) continue;
    const Value value = value_of(t);
    const Expr elements = product(sizes, plan_.layout.row, sizes.size());
    const auto row = rows_.emplace(t, builder_.local(cat("row", t), value.dtype(), elements)).first;
    builder_.store(row->second, place_in_row(), value);
  }
}

void NestValues::store_results(bool rows, int level) {
  struct Stored {
    size_t result;
    Expr index;
    Value value;
  };
  std::vector<Stored> stored;
  for (size_t w = 0; w < plan_.writes.size(); ++w) {
    const TermResult& result = plan_.terms.result(plan_.writes[w]);
    const Term& term = plan_.terms.term(result.term);
    if (term.row != rows || (!rows && term.level != level)) continue;
    if (rows) place_.to_first(plan_.layout);
    const Value value = value_of(result.term);
    stored.push_back({w, index_of(result.store, plan_.stores[w]), value});
  }
  for (const Stored& store : stored) builder_.store(out_[store.result], store.index, store.value);
}

Value NestValues::value_of(int id) {
  const auto known = values_.find(id);
  if (known != values_.end()) return known->second;
  const Value value = compute(id);
  values_.emplace(id, value);
  return value;
}

// Outside of its part, or where the element does not exist, nothing is read.
Value NestValues::load(const Term& term, int id) {
  const TermAccess& access = term.access;
  const Expr& last = place_.at.back();
  if (access.value == ir::kNone) return builder_.load(sums_, place_.sums_row * plan_.layout.sizes.back() + last);
  if (const auto staged = staged_.find(id); staged != staged_.end())
    return builder_.load(staged->second, (last - place_.first) * plan_.shape.tile + place_.in_tile);
  const Expr index = index_of(access, plan_.slots[id]);
  std::optional<Value> inside;
  const int part = access.part == ir::kNone ? ir::kNone : plan_.terms.part(access.part).inside;
  for (const int condition : {access.inside, part}) {
    if (condition != ir::kNone) inside = inside ? *inside & value_of(condition) : value_of(condition);
  }
  if (!inside) return element(access.value, index);
  const DType dtype = plan_.graph.value(access.value).tensor().dtype;
  const Value outside = loop::cast(builder_.constant(DType::kF64, access.outside), dtype);
  const auto memory = in_.find(access.value);
  if (memory == in_.end()) return loop::select(*inside, element(access.value, index), outside);
  return builder_.load(memory->second, index, *inside, outside);
}

// The element of a value at `index`, counted in memory from the first one.
Value NestValues::element(ir::ValueId value, const Expr& index) {
  const Ramp* made = plan_.ramps.find(value);
  if (made == nullptr) return builder_.load(in_.at(value), index);
  return emit_element(builder_, *made, plan_.graph.value(value).tensor().dtype, index);
}

Value NestValues::compute(int id) {
  const Term& term = plan_.terms.term(id);
  if (!term.row && term.level < place_.walk && rows_.contains(id)) return builder_.load(rows_.at(id), place_in_row());
  switch (term.kind) {
    case Term::Kind::kLoad: return load(term, id);
    case Term::Kind::kPlace: return builder_.index(place_.at[static_cast<size_t>(plan_.layout.place[term.dim])]);
    case Term::Kind::kScan: return builder_.scan(term.combine, value_of(term.args.front()));
    default: break;
  }
  NG_CHECK(term.kind == Term::Kind::kMap, "a reduction is read before its walk");
  std::vector<Value> args;
  for (const int arg : term.args) args.push_back(value_of(arg));
  return term.formula(builder_, args);
}

void NestWalks::write_row() {
  values_.forget_all();
  for (int level = 0; level <= plan_.last_level; ++level) {
    values_.compute_row_terms(level);
    write_walk(level);
  }
  values_.store_results(true, plan_.last_level);
}

void NestWalks::write_walk(int level) {
  if (!plan_.has_work(level)) return;
  const std::vector<int> reductions = plan_.reductions_of(level);
  place_.walk = level;
  const std::vector<Value> sums = values_.inside([&] { return walk_over(plan_.layout.row, level, reductions); });
  for (size_t i = 0; i < reductions.size(); ++i) values_.define(reductions[i], sums[i]);
}

std::vector<Value> NestWalks::combined(const std::vector<int>& reductions, std::vector<Value> values) {
  for (size_t i = 0; i < reductions.size(); ++i)
    values[i] = builder_.reduce(plan_.terms.term(reductions[i]).combine, values[i]);
  return values;
}

std::vector<Value> NestWalks::walk_over(size_t dim, int level, const std::vector<int>& reductions) {
  const std::vector<Expr>& sizes = plan_.layout.sizes;
  if (dim + 1 == sizes.size()) return walk_inner(level, reductions);
  place_.at[dim] = builder_.begin_for(loop::For::Kind::kSerial, sizes[dim]);
  std::vector<Value> values = combined(reductions, walk_over(dim + 1, level, reductions));
  builder_.end_for();
  return values;
}

// Whether each walk covers one piece of a split row, which is not cut further.
bool NestWalks::is_whole_piece() const {
  return plan_.shape.splits && !plan_.terms.is_by_columns() && plan_.layout.row + 1 == plan_.layout.sizes.size();
}

// Number of elements that are combined one by one before their result is combined with the others; 0: all of them.
int64_t NestWalks::piece_of(int level) const {
  const std::vector<int> reductions = plan_.reductions_of(level);
  const auto is_sum = [&](int t) { return plan_.terms.term(t).combine == loop::Combine::kSum; };
  if (plan_.terms.is_ordered() || std::none_of(reductions.begin(), reductions.end(), is_sum)) return 0;
  const int64_t piece = plan_.terms.is_by_columns() ? kColumnSumPiece : kSumPiece;
  const int64_t otherwise = plan_.terms.is_by_columns() ? 2 * piece + 1 : 0;
  return plan_.layout.sizes.back().as_int().value_or(otherwise) > 2 * piece && !is_whole_piece() ? piece : 0;
}

std::vector<Value> NestWalks::walk_inner(int level, const std::vector<int>& reductions) {
  const int64_t piece = piece_of(level);
  if (piece == 0) return walk_run(place_.first, place_.length, level, reductions);
  const Expr first = builder_.begin_for(loop::For::Kind::kSerial, ceil_div(place_.length, piece)) * piece;
  const Expr length = Expr::make(ExprOp::kMin, {place_.length - first, Expr(piece)});
  std::vector<Value> values = combined(reductions, walk_run(place_.first + first, length, level, reductions));
  builder_.end_for();
  return values;
}

std::vector<Value> NestWalks::walk_run(const Expr& first, const Expr& length, int level,
                                       const std::vector<int>& reductions) {
  const auto kind = plan_.terms.is_by_columns() ? loop::For::Kind::kSerial : loop::For::Kind::kVector;
  place_.at.back() = first + builder_.begin_for(kind, length);
  values_.keep_terms(level);
  values_.store_results(false, level);
  std::vector<Value> sums;
  for (const int t : reductions) {
    const Term& term = plan_.terms.term(t);
    const Value value = values_.value_of(term.args.front());
    sums.push_back(term.to_place ? builder_.reduce_with_index(term.combine, value).index
                                 : builder_.reduce(term.combine, value));
  }
  builder_.end_for();
  return sums;
}

}  // namespace npugraph::lower
