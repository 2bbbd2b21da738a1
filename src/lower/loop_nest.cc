// SPDX-License-Identifier: Apache-2.0
#include "lower/loop_nest.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/error.h"

namespace npugraph::lower {
namespace {

using loop::BufferId;
using loop::Builder;
using loop::Value;
using StridesOf = std::function<std::vector<Expr>(ir::ValueId)>;

// Elements that are worth a thread, and those of one piece of a long row.
constexpr int64_t kGrainElements = 16384;
constexpr int64_t kPieceElements = 4096;

Expr ceil_div(const Expr& a, const Expr& b) { return Expr::make(ExprOp::kCeilDiv, {a, b}); }

// The dimensions of the space that the loops walk over, outermost first, and each access's strides in them.
struct Layout {
  std::vector<Expr> sizes;
  std::vector<std::vector<Expr>> strides;  // per access
  std::vector<int> place;                  // per dimension of the space: which one it is; kNone where it has size 1
};

// Merges dimensions that all accesses walk through as if they were one, and drops those of size 1. Those that `stay` are kept
// as they are, and dimension `row` is not merged with those in front of it.
Layout collapse(const std::vector<Expr>& space, const std::vector<std::vector<Expr>>& strides,
                const std::vector<bool>& stay, size_t row) {
  Layout layout{.strides = std::vector<std::vector<Expr>>(strides.size())};
  bool can_merge = false;
  for (size_t d = 0; d < space.size(); ++d) {
    layout.place.push_back(ir::kNone);
    if (d == row) can_merge = false;
    if (space[d].is_int(1) && !stay[d]) continue;
    const bool merges = can_merge && !stay[d] && [&] {
      for (size_t v = 0; v < strides.size(); ++v) {
        if (!(layout.strides[v].back() == strides[v][d] * space[d])) return false;
      }
      return true;
    }();
    can_merge = !stay[d];
    if (merges) {
      layout.sizes.back() = layout.sizes.back() * space[d];
      for (size_t v = 0; v < strides.size(); ++v) layout.strides[v].back() = strides[v][d];
    } else {
      layout.sizes.push_back(space[d]);
      for (size_t v = 0; v < strides.size(); ++v) layout.strides[v].push_back(strides[v][d]);
    }
    layout.place.back() = static_cast<int>(layout.sizes.size()) - 1;
  }
  return layout;
}

// Costs from which on a value of an earlier walk is kept, and the longest row that is.
constexpr int kKeepCost = 8;
constexpr int64_t kLongestKeptRow = 65536;

class NestWriter {
 public:
  NestWriter(const ir::Graph& graph, const Terms& terms, const std::vector<ir::ValueId>& results,
             const StridesOf& strides_of, std::optional<Sums> sums)
      : graph_(graph),
        terms_(terms),
        strides_of_(strides_of),
        is_epilogue_(sums.has_value()),
        behind_images_(sums == Sums::kImages),
        by_rows_(is_epilogue_ || terms.walks_rows()),
        builder_(is_epilogue_ ? "epilogue" : "nest") {
    nest_.writes = results;
  }

  std::optional<LoopNest> write() && {
    choose_terms();
    lay_out();
    find_shares();
    if (is_epilogue_ && (!has_rows_of_sums() || last_level_ > 0)) return std::nullopt;
    declare();
    write_loops();
    nest_.kernel = builder_.finish();
    return std::move(nest_);
  }

 private:
  bool has_rows_of_sums() const;
  void write_epilogue();
  void place_row(Expr row);
  void choose_terms();
  void need(int term, int walk);
  bool is_kept(int term) const { return std::find(kept_.begin(), kept_.end(), term) != kept_.end(); }
  void lay_out();
  void declare();
  void declare_symbols(const Expr& e);
  size_t add_access(const TermAccess& access);
  void find_shares();
  void write_check(const TermCheck& check);
  void write_loops();
  void write_row();
  void write_walk(int level);
  void compute_row_terms(int level);
  void store_results(bool rows, int level);
  Value value_of(int term);
  Value compute(int term);
  Value load(const Term& term, int id);
  Expr index_of(const TermAccess& access, size_t slot);

  const ir::Graph& graph_;
  const Terms& terms_;
  const StridesOf& strides_of_;
  const bool is_epilogue_;
  const bool behind_images_;
  const bool by_rows_;
  Builder builder_;
  LoopNest nest_;
  std::vector<bool> needed_;  // per term
  std::vector<int> kept_;     // full terms that later walks read from a local row
  int last_level_ = 0;

  Layout layout_;
  std::vector<std::vector<Expr>> strides_;        // per access: in the dimensions of the space
  std::vector<Expr> offsets_;                     // per access: elements before its place 0
  std::vector<size_t> slots_;                     // per term: of a load, its access
  std::vector<size_t> stores_;                    // per result: its access
  std::unordered_map<ir::ValueId, BufferId> in_;  // of what is read
  std::vector<BufferId> out_;                     // per result

  std::unordered_map<int, BufferId> rows_;  // of kept terms
  std::unordered_map<int, Value> values_;   // of row terms, and of full ones in the current walk
  std::vector<Expr> outer_;                 // coordinates of the current row
  Expr first_, length_;                     // the piece of the row that is walked over
  Expr inner_, element_;                    // the current element, in its row and in its piece
  BufferId sums_{};                         // of the product in front
  Expr row_;                                // of the sums
  int walk_ = -1;                           // level of the current walk
};

// Which terms are computed at all, and which are kept from one walk to the next.
void NestWriter::choose_terms() {
  needed_.assign(terms_.size(), false);
  for (const ir::ValueId result : nest_.writes) {
    const TermResult& stored = terms_.result(result);
    need(stored.term, terms_.term(stored.term).level);
    if (stored.store.index != ir::kNone) need(stored.store.index, 0);
  }
  const auto add_read = [&](ir::ValueId value) {
    if (std::find(nest_.reads.begin(), nest_.reads.end(), value) == nest_.reads.end()) nest_.reads.push_back(value);
  };
  for (int t = 0; t < terms_.size(); ++t) {
    const Term& term = terms_.term(t);
    if (!needed_[t]) continue;
    last_level_ = std::max(last_level_, term.level);
    if (term.kind == Term::Kind::kLoad && term.access.value != ir::kNone) add_read(term.access.value);
  }
  for (const TermCheck& check : terms_.checks()) add_read(check.index);
}

void NestWriter::need(int id, int walk) {
  const Term& term = terms_.term(id);
  const auto* row = term.row ? nullptr : &terms_.space().back();
  const bool is_long = row != nullptr && row->as_int() && *row->as_int() > kLongestKeptRow;
  if (row != nullptr && term.level < walk && term.cost >= kKeepCost && !is_long) {
    if (is_kept(id)) return;
    kept_.push_back(id);
    walk = term.level;
  }
  needed_[id] = true;
  // What a row term reads is read where it stands.
  for (const int arg : term.args) need(arg, term.row ? terms_.term(arg).level : walk);
  if (term.access.index != ir::kNone) need(term.access.index, walk);
  if (term.access.part != ir::kNone) need(terms_.part(term.access.part).inside, walk);
}

// Its strides in the dimensions of the space: 0 where it is broadcast. What it is shifted by is an offset.
size_t NestWriter::add_access(const TermAccess& access) {
  const std::vector<Expr> own = strides_of_(access.value);
  std::vector<Expr> strides(terms_.space().size(), Expr(0));
  for (size_t d = 0; d < access.dims.size(); ++d) {
    if (access.dims[d] != ir::kNone) strides[access.dims[d]] = strides[access.dims[d]] + own[d];
  }
  Expr offset = 0;
  for (int part = access.part; part != ir::kNone; part = terms_.part(part).around) {
    offset = offset - strides[terms_.part(part).dim] * terms_.part(part).first;
  }
  strides_.push_back(std::move(strides));
  offsets_.push_back(std::move(offset));
  return strides_.size() - 1;
}

void NestWriter::lay_out() {
  std::vector<bool> stay(terms_.space().size(), false);
  slots_.assign(terms_.size(), 0);
  for (int t = 0; t < terms_.size(); ++t) {
    const Term& term = terms_.term(t);
    if (!needed_[t]) continue;
    if (term.kind == Term::Kind::kPlace) stay[term.dim] = true;
    if (term.kind == Term::Kind::kLoad && term.access.value != ir::kNone) slots_[t] = add_access(term.access);
  }
  for (const ir::ValueId id : nest_.writes) stores_.push_back(add_access(terms_.result(id).store));
  size_t row = stay.size();
  if (behind_images_) {
    row = 2;
    const auto is_one = [](const Expr& size) { return size.is_int(1); };
    stay.back() = stay.back() || std::all_of(terms_.space().begin() + 2, terms_.space().end(), is_one);
  } else if (by_rows_) {
    stay.back() = true;
  }
  layout_ = collapse(terms_.space(), strides_, stay, row);
  if (!layout_.sizes.empty()) return;
  layout_.sizes.emplace_back(1);
  for (auto& of_access : layout_.strides) of_access.emplace_back(0);
}

// A result may take the memory of what is read at the same places alone, before anything is stored there.
void NestWriter::find_shares() {
  if (is_epilogue_ || last_level_ > 0) return;
  const auto is_same_place = [&](ir::ValueId value, const TermAccess& store) {
    bool same = true;
    for (int t = 0; t < terms_.size(); ++t) {
      const TermAccess& access = terms_.term(t).access;
      if (needed_[t] && access.value == value) same = same && access.is_plain() && access.dims == store.dims;
    }
    const auto is_index = [&](const TermCheck& check) { return check.index == value; };
    return same && std::none_of(terms_.checks().begin(), terms_.checks().end(), is_index);
  };
  for (size_t w = 0; w < nest_.writes.size(); ++w) {
    const TermAccess& store = terms_.result(nest_.writes[w]).store;
    for (size_t r = 0; store.is_plain() && r < nest_.reads.size(); ++r) {
      if (is_same_place(nest_.reads[r], store)) nest_.may_share.emplace_back(w, r);
    }
  }
}

void NestWriter::declare_symbols(const Expr& e) {
  std::vector<std::string> names;
  collect_symbols(e, names);
  for (const std::string& name : names) {
    const auto is_named = [&](const Expr& symbol) { return symbol.symbol_name() == name; };
    if (std::any_of(nest_.symbols.begin(), nest_.symbols.end(), is_named)) continue;
    const auto symbol =
        std::find_if(graph_.symbols.begin(), graph_.symbols.end(), [&](const ir::Symbol& s) { return s.name == name; });
    NG_CHECK(symbol != graph_.symbols.end(), "undeclared symbol ", name);
    nest_.symbols.push_back(builder_.scalar(name, symbol->kind));
  }
}

void NestWriter::declare() {
  if (is_epilogue_) sums_ = builder_.in("sums", DType::kF32);
  for (const ir::ValueId id : nest_.reads)
    in_.emplace(id, builder_.in(cat("x", in_.size()), graph_.value(id).tensor().dtype));
  for (const ir::ValueId id : nest_.writes)
    out_.push_back(builder_.out(cat("y", out_.size()), graph_.value(id).tensor().dtype));
  for (const Expr& size : layout_.sizes) declare_symbols(size);
  for (const Expr& size : terms_.space()) declare_symbols(size);
  for (const auto& strides : strides_)
    for (const Expr& stride : strides) declare_symbols(stride);
  for (const Expr& offset : offsets_) declare_symbols(offset);
  for (const Expr& scalar : terms_.scalars()) declare_symbols(scalar);
  const auto declare_type = [&](ir::ValueId id) {
    for (const Expr& size : graph_.value(id).tensor().sizes) declare_symbols(size);
    for (const Expr& stride : strides_of_(id)) declare_symbols(stride);
  };
  for (const TermCheck& check : terms_.checks()) declare_type(check.index);
  for (const ir::ValueId id : nest_.reads) declare_type(id);
  for (const ir::ValueId id : nest_.writes) declare_type(id);
}

// Where the current element, or row, lies in the memory of a value.
Expr NestWriter::index_of(const TermAccess& access, size_t slot) {
  const auto& strides = layout_.strides[slot];
  Expr index = offsets_[slot] + inner_ * strides.back();
  for (size_t d = 0; d < outer_.size(); ++d) index = index + outer_[d] * strides[d];
  if (access.index == ir::kNone) return index;
  return index + loop::as_index(value_of(access.index)) * strides_of_(access.value)[access.indexed];
}

// One loop per dimension of the index, the last one in lanes.
void NestWriter::write_check(const TermCheck& check) {
  const auto& sizes = graph_.value(check.index).tensor().sizes;
  const std::vector<Expr> strides = strides_of_(check.index);
  const BufferId buffer = in_.at(check.index);
  const auto write = [&](auto self, size_t d, const Expr& before) -> void {
    const auto body = [&](const Expr& i) {
      const Expr at = before + i * strides[d];
      if (d + 1 < sizes.size()) return self(self, d + 1, at);
      const Value place = loop::cast(builder_.load(buffer, at), DType::kI64);
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

bool NestWriter::has_rows_of_sums() const {
  if (!behind_images_) return layout_.sizes.size() <= 2;
  const auto in_rows =
      std::count_if(layout_.place.begin(), layout_.place.begin() + 2, [](int place) { return place != ir::kNone; });
  const bool merged = in_rows == 2 && layout_.place[0] == layout_.place[1];
  return static_cast<int64_t>(layout_.sizes.size()) == in_rows - (merged ? 1 : 0) + 1;
}

// The coordinates of a row, counted through the dimensions in front of the last one.
void NestWriter::place_row(Expr row) {
  outer_.assign(layout_.sizes.size() - 1, Expr(0));
  for (size_t d = outer_.size(); d-- > 0;) {
    outer_[d] = d == 0 ? row : Expr::make(ExprOp::kMod, {row, layout_.sizes[d]});
    row = Expr::make(ExprOp::kFloorDiv, {row, layout_.sizes[d]});
  }
}

void NestWriter::write_epilogue() {
  Expr rows = 1;
  for (size_t d = 0; d + 1 < layout_.sizes.size(); ++d) rows = rows * layout_.sizes[d];
  builder_.serial_for(rows, [&](const Expr& i) {
    place_row(i);
    row_ = i;
    first_ = 0;
    length_ = layout_.sizes.back();
    write_row();
  });
}

void NestWriter::write_loops() {
  if (is_epilogue_) return write_epilogue();
  for (const TermCheck& check : terms_.checks()) write_check(check);
  const Expr row = layout_.sizes.back();
  Expr rows = 1;
  for (size_t d = 0; d + 1 < layout_.sizes.size(); ++d) rows = rows * layout_.sizes[d];
  // A walk that carries nothing from one element to the next may be cut.
  const Expr pieces = by_rows_ ? Expr(1) : ceil_div(row, kPieceElements);
  const bool is_whole = pieces.is_int(1);
  const Expr walked = is_whole ? row : Expr(kPieceElements);
  const Expr grain = ceil_div(kGrainElements, Expr::make(ExprOp::kMax, {walked, Expr(1)}));
  builder_.parallel_for(rows * pieces, grain, [&](const Expr& i) {
    const Expr row_of_piece = is_whole ? i : Expr::make(ExprOp::kFloorDiv, {i, pieces});
    first_ = is_whole ? Expr(0) : Expr::make(ExprOp::kMod, {i, pieces}) * kPieceElements;
    length_ = is_whole ? row : Expr::make(ExprOp::kMin, {row - first_, Expr(kPieceElements)});
    place_row(row_of_piece);
    write_row();
  });
}

void NestWriter::write_row() {
  values_.clear();
  for (int level = 0; level <= last_level_; ++level) {
    compute_row_terms(level);
    write_walk(level);
  }
  store_results(true, last_level_);
}

// Row terms all of whose reductions are done.
void NestWriter::compute_row_terms(int level) {
  walk_ = -1;
  inner_ = 0;
  for (int t = 0; t < terms_.size(); ++t) {
    const Term& term = terms_.term(t);
    if (needed_[t] && term.row && term.level == level) value_of(t);
  }
}

void NestWriter::write_walk(int level) {
  std::vector<int> reductions;
  bool has_work = std::any_of(kept_.begin(), kept_.end(), [&](int t) { return terms_.term(t).level == level; });
  for (int t = 0; t < terms_.size(); ++t) {
    const Term& term = terms_.term(t);
    if (needed_[t] && term.kind == Term::Kind::kReduce && term.level == level + 1) reductions.push_back(t);
  }
  for (const ir::ValueId result : nest_.writes) {
    const Term& term = terms_.term(terms_.result(result).term);
    has_work = has_work || (!term.row && term.level == level);
  }
  if (!has_work && reductions.empty()) return;
  std::unordered_map<int, Value> of_rows = values_;
  std::vector<Value> reduced;
  builder_.vector_for(length_, [&](const Expr& j) {
    walk_ = level;
    element_ = j;
    inner_ = first_ + j;
    for (const int t : kept_) {
      if (terms_.term(t).level != level) continue;
      const Value value = value_of(t);
      const auto row = rows_.emplace(t, builder_.local(cat("row", t), value.dtype(), layout_.sizes.back())).first;
      builder_.store(row->second, j, value);
    }
    store_results(false, level);
    for (const int t : reductions) {
      const Term& term = terms_.term(t);
      const Value value = value_of(term.args[0]);
      reduced.push_back(term.to_place ? builder_.reduce_with_index(term.combine, value).index
                                      : builder_.reduce(term.combine, value));
    }
  });
  values_ = std::move(of_rows);
  for (size_t i = 0; i < reductions.size(); ++i) values_.insert_or_assign(reductions[i], reduced[i]);
}

// Everything is read before anything is stored: results may lie in the memory of operands.
void NestWriter::store_results(bool rows, int level) {
  struct Stored {
    size_t result;
    Expr index;
    Value value;
  };
  std::vector<Stored> stored;
  for (size_t w = 0; w < nest_.writes.size(); ++w) {
    const TermResult& result = terms_.result(nest_.writes[w]);
    const Term& term = terms_.term(result.term);
    if (term.row != rows || (!rows && term.level != level)) continue;
    if (rows) inner_ = 0;
    const Value value = value_of(result.term);
    stored.push_back({w, index_of(result.store, stores_[w]), value});
  }
  for (const Stored& store : stored) builder_.store(out_[store.result], store.index, store.value);
}

Value NestWriter::value_of(int id) {
  const auto known = values_.find(id);
  if (known != values_.end()) return known->second;
  const Value value = compute(id);
  values_.emplace(id, value);
  return value;
}

// Where a part is left, nothing is read.
Value NestWriter::load(const Term& term, int id) {
  const TermAccess& access = term.access;
  if (access.value == ir::kNone) return builder_.load(sums_, row_ * layout_.sizes.back() + inner_);
  const BufferId buffer = in_.at(access.value);
  const Expr index = index_of(access, slots_[id]);
  if (access.part == ir::kNone) return builder_.load(buffer, index);
  const Value inside = value_of(terms_.part(access.part).inside);
  const DType dtype = graph_.value(access.value).tensor().dtype;
  return builder_.load(buffer, index, inside, builder_.constant(dtype, 0));
}

Value NestWriter::compute(int id) {
  const Term& term = terms_.term(id);
  if (!term.row && term.level < walk_ && rows_.contains(id)) return builder_.load(rows_.at(id), element_);
  switch (term.kind) {
    case Term::Kind::kLoad: return load(term, id);
    case Term::Kind::kPlace: {
      const int dim = layout_.place[term.dim];
      return builder_.index(dim == static_cast<int>(outer_.size()) ? inner_ : outer_[dim]);
    }
    case Term::Kind::kScan: return builder_.scan(term.combine, value_of(term.args[0]));
    default: break;
  }
  NG_CHECK(term.kind == Term::Kind::kMap, "a reduction is read before its walk");
  std::vector<Value> args;
  for (const int arg : term.args) args.push_back(value_of(arg));
  return term.formula(builder_, args);
}

}  // namespace

LoopNest make_loop_nest(const ir::Graph& graph, const Terms& terms, const std::vector<ir::ValueId>& results,
                        const StridesOf& strides_of) {
  return *NestWriter(graph, terms, results, strides_of, std::nullopt).write();
}

std::optional<LoopNest> make_epilogue(const ir::Graph& graph, const Terms& terms,
                                      const std::vector<ir::ValueId>& results, const StridesOf& strides_of, Sums sums) {
  return NestWriter(graph, terms, results, strides_of, sums).write();
}

}  // namespace npugraph::lower
