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

// The dimensions of the space that the loops walk over, outermost first, and each value's strides in them.
struct Layout {
  std::vector<Expr> sizes;
  std::vector<std::vector<Expr>> strides;  // per value
};

// Strides in the dimensions of the space, from those in a tensor's own: 0 where it is broadcast.
std::vector<Expr> strides_in(const std::vector<Expr>& sizes, const std::vector<Expr>& own,
                             const std::vector<Expr>& space) {
  std::vector<Expr> strides(space.size(), Expr(0));
  const size_t missing = space.size() - sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!sizes[d].is_int(1)) strides[missing + d] = own[d];
  }
  return strides;
}

// Merges dimensions that all values walk through as if they were one, and drops those of size 1. The last stays by itself
// when `keep_row`.
Layout collapse(const std::vector<Expr>& space, const std::vector<std::vector<Expr>>& strides, bool keep_row) {
  Layout layout{.strides = std::vector<std::vector<Expr>>(strides.size())};
  const size_t rank = space.size();
  for (size_t d = 0; d < rank; ++d) {
    const bool is_row = keep_row && d + 1 == rank;
    if (space[d].is_int(1) && !is_row) continue;
    const bool merges = !layout.sizes.empty() && !is_row && [&] {
      for (size_t v = 0; v < strides.size(); ++v) {
        if (!(layout.strides[v].back() == strides[v][d] * space[d])) return false;
      }
      return true;
    }();
    if (merges) {
      layout.sizes.back() = layout.sizes.back() * space[d];
      for (size_t v = 0; v < strides.size(); ++v) layout.strides[v].back() = strides[v][d];
    } else {
      layout.sizes.push_back(space[d]);
      for (size_t v = 0; v < strides.size(); ++v) layout.strides[v].push_back(strides[v][d]);
    }
  }
  return layout;
}

// Costs from which on a value of an earlier walk is kept, and the longest row that is.
constexpr int kKeepCost = 8;
constexpr int64_t kLongestKeptRow = 65536;

class NestWriter {
 public:
  NestWriter(const ir::Graph& graph, const Terms& terms, const std::vector<ir::ValueId>& results,
             const StridesOf& strides_of, bool is_epilogue)
      : graph_(graph),
        terms_(terms),
        strides_of_(strides_of),
        is_epilogue_(is_epilogue),
        by_rows_(is_epilogue || terms.has_reductions()),
        builder_(is_epilogue ? "epilogue" : "nest") {
    nest_.writes = results;
  }

  std::optional<LoopNest> write() && {
    choose_terms();
    lay_out();
    if (is_epilogue_ && (layout_.sizes.size() > 2 || last_level_ > 0)) return std::nullopt;
    declare();
    write_loops();
    nest_.kernel = builder_.finish();
    return std::move(nest_);
  }

 private:
  void write_epilogue();
  void choose_terms();
  void need(int term, int walk);
  bool is_kept(int term) const { return std::find(kept_.begin(), kept_.end(), term) != kept_.end(); }
  void lay_out();
  void declare();
  void declare_symbols(const Expr& e);
  void write_loops();
  void write_row();
  void write_walk(int level);
  void compute_row_terms(int level);
  void store_results(bool rows, int level);
  Value value_of(int term);
  Value compute(int term);
  Expr index_of(ir::ValueId value) const;

  const ir::Graph& graph_;
  const Terms& terms_;
  const StridesOf& strides_of_;
  const bool is_epilogue_;
  const bool by_rows_;
  Builder builder_;
  LoopNest nest_;
  std::vector<bool> needed_;  // per term
  std::vector<int> kept_;     // full terms that later walks read from a local row
  int last_level_ = 0;

  Layout layout_;
  std::unordered_map<ir::ValueId, size_t> slots_;  // value -> its strides and its buffer
  std::vector<BufferId> buffers_;

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
    const int term = terms_.term_of(result);
    NG_CHECK(term >= 0, "no term for ", graph_.value(result).name);
    need(term, terms_.term(term).level);
  }
  for (int t = 0; t < terms_.size(); ++t) {
    if (!needed_[t]) continue;
    last_level_ = std::max(last_level_, terms_.term(t).level);
    const bool is_load = terms_.term(t).kind == Term::Kind::kLoad && terms_.term(t).value != ir::kNone;
    if (is_load) nest_.reads.push_back(terms_.term(t).value);
  }
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
}

void NestWriter::lay_out() {
  std::vector<std::vector<Expr>> strides;
  const auto add = [&](ir::ValueId id) {
    slots_.emplace(id, strides.size());
    strides.push_back(strides_in(graph_.value(id).tensor().sizes, strides_of_(id), terms_.space()));
  };
  for (const ir::ValueId id : nest_.reads) add(id);
  for (const ir::ValueId id : nest_.writes) add(id);
  layout_ = collapse(terms_.space(), strides, by_rows_);
  if (!layout_.sizes.empty()) return;
  layout_.sizes.emplace_back(1);
  for (auto& of_value : layout_.strides) of_value.emplace_back(0);
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
    buffers_.push_back(builder_.in(cat("x", buffers_.size()), graph_.value(id).tensor().dtype));
  for (const ir::ValueId id : nest_.writes)
    buffers_.push_back(builder_.out(cat("y", buffers_.size()), graph_.value(id).tensor().dtype));
  for (const Expr& size : layout_.sizes) declare_symbols(size);
  for (const Expr& size : terms_.space()) declare_symbols(size);
  for (const auto& strides : layout_.strides)
    for (const Expr& stride : strides) declare_symbols(stride);
  for (const Expr& scalar : terms_.scalars()) declare_symbols(scalar);
}

// Where the current element, or row, lies in the memory of a value.
Expr NestWriter::index_of(ir::ValueId value) const {
  const auto& strides = layout_.strides[slots_.at(value)];
  Expr index = inner_ * strides.back();
  for (size_t d = 0; d < outer_.size(); ++d) index = index + outer_[d] * strides[d];
  return index;
}

void NestWriter::write_epilogue() {
  const Expr rows = layout_.sizes.size() == 2 ? layout_.sizes[0] : Expr(1);
  builder_.serial_for(rows, [&](const Expr& i) {
    outer_.assign(layout_.sizes.size() - 1, i);
    row_ = i;
    first_ = 0;
    length_ = layout_.sizes.back();
    write_row();
  });
}

void NestWriter::write_loops() {
  if (is_epilogue_) return write_epilogue();
  const Expr row = layout_.sizes.back();
  Expr rows = 1;
  for (size_t d = 0; d + 1 < layout_.sizes.size(); ++d) rows = rows * layout_.sizes[d];
  // A walk that carries nothing from one element to the next may be cut.
  const Expr pieces = by_rows_ ? Expr(1) : ceil_div(row, kPieceElements);
  const bool is_whole = pieces.is_int(1);
  const Expr walked = is_whole ? row : Expr(kPieceElements);
  const Expr grain = ceil_div(kGrainElements, Expr::make(ExprOp::kMax, {walked, Expr(1)}));
  builder_.parallel_for(rows * pieces, grain, [&](const Expr& i) {
    Expr rest = is_whole ? i : Expr::make(ExprOp::kFloorDiv, {i, pieces});
    first_ = is_whole ? Expr(0) : Expr::make(ExprOp::kMod, {i, pieces}) * kPieceElements;
    length_ = is_whole ? row : Expr::make(ExprOp::kMin, {row - first_, Expr(kPieceElements)});
    outer_.assign(layout_.sizes.size() - 1, Expr(0));
    for (size_t d = outer_.size(); d-- > 0;) {
      outer_[d] = d == 0 ? rest : Expr::make(ExprOp::kMod, {rest, layout_.sizes[d]});
      rest = Expr::make(ExprOp::kFloorDiv, {rest, layout_.sizes[d]});
    }
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
    const Term& term = terms_.term(terms_.term_of(result));
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
      reduced.push_back(builder_.reduce(terms_.term(t).combine, value_of(terms_.term(t).args[0])));
    }
  });
  values_ = std::move(of_rows);
  for (size_t i = 0; i < reductions.size(); ++i) values_.insert_or_assign(reductions[i], reduced[i]);
}

void NestWriter::store_results(bool rows, int level) {
  for (const ir::ValueId result : nest_.writes) {
    const int id = terms_.term_of(result);
    const Term& term = terms_.term(id);
    if (term.row != rows || (!rows && term.level != level)) continue;
    if (rows) inner_ = 0;
    builder_.store(buffers_[slots_.at(result)], index_of(result), value_of(id));
  }
}

Value NestWriter::value_of(int id) {
  const auto known = values_.find(id);
  if (known != values_.end()) return known->second;
  const Value value = compute(id);
  values_.emplace(id, value);
  return value;
}

Value NestWriter::compute(int id) {
  const Term& term = terms_.term(id);
  if (!term.row && term.level < walk_ && rows_.contains(id)) return builder_.load(rows_.at(id), element_);
  if (term.kind == Term::Kind::kLoad && term.value == ir::kNone)
    return builder_.load(sums_, row_ * layout_.sizes.back() + inner_);
  if (term.kind == Term::Kind::kLoad) return builder_.load(buffers_[slots_.at(term.value)], index_of(term.value));
  NG_CHECK(term.kind == Term::Kind::kMap, "a reduction is read before its walk");
  std::vector<Value> args;
  for (const int arg : term.args) args.push_back(value_of(arg));
  return term.formula(builder_, args);
}

}  // namespace

LoopNest make_loop_nest(const ir::Graph& graph, const Terms& terms, const std::vector<ir::ValueId>& results,
                        const StridesOf& strides_of) {
  return *NestWriter(graph, terms, results, strides_of, false).write();
}

std::optional<LoopNest> make_epilogue(const ir::Graph& graph, const Terms& terms,
                                      const std::vector<ir::ValueId>& results, const StridesOf& strides_of) {
  return NestWriter(graph, terms, results, strides_of, true).write();
}

}  // namespace npugraph::lower
