// SPDX-License-Identifier: Apache-2.0
#include "lower/loop_nest.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "lower/nest_layout.h"

namespace npugraph::lower {
namespace {

using loop::BufferId;
using loop::Builder;
using loop::Value;
using StridesOf = std::function<std::vector<Expr>(ir::ValueId)>;

// Elements that are worth a thread, and those of one piece of a long row.
constexpr int64_t kGrainElements = 16384;
constexpr int64_t kPieceElements = 4096;
// Rows side by side that are combined together, and elements of each that one sum takes up one by one.
constexpr int64_t kColumns = 64;
constexpr int64_t kColumnPiece = 64;
// Sides of a tile of what is transposed.
constexpr int64_t kTile = 32;
// Columns below which, and elements from which on, a few rows are cut for several threads.
constexpr int64_t kFewColumns = 8 * kColumns;
constexpr int64_t kSplitElements = 32768;

Expr ceil_div(const Expr& a, const Expr& b) { return Expr::make(ExprOp::kCeilDiv, {a, b}); }

Expr product(const std::vector<Expr>& sizes, size_t begin, size_t end) {
  Expr out = 1;
  for (size_t d = begin; d < end; ++d) out = out * sizes[d];
  return out;
}

// Costs from which on a value of an earlier walk is kept, and the longest row that is.
constexpr int kKeepCost = 8;
constexpr int64_t kLongestKeptRow = 65536;

class NestWriter {
 public:
  NestWriter(const ir::Graph& graph, const Terms& terms, const std::vector<ir::ValueId>& results,
             const StridesOf& strides_of, const Generators& generators, std::optional<Sums> sums)
      : graph_(graph),
        terms_(terms),
        strides_of_memory_(strides_of),
        generators_(generators),
        is_epilogue_(sums.has_value()),
        behind_images_(sums == Sums::kImages),
        by_rows_(is_epilogue_ || terms.walks_rows()),
        builder_(is_epilogue_ ? "epilogue" : "nest") {
    nest_.writes = results;
  }

  std::optional<LoopNest> write() && {
    is_split_ = is_split();
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
  void write_elements();
  void write_tiles();
  void stage_tile(size_t tile, const Expr& first_row, const Expr& rows);
  void write_rows();
  void write_columns();
  bool is_split() const;
  // Whether a piece of a split row is all that is walked over at once.
  bool is_whole_piece() const {
    return is_split_ && !terms_.is_by_columns() && layout_.row + 1 == layout_.sizes.size();
  }
  void write_split_rows();
  void write_split_columns();
  void set_outer(const Expr& row, size_t end);
  void write_row();
  bool has_work(int level) const;
  void write_walk(int level);
  std::vector<Value> walk_over(size_t dim, int level, const std::vector<int>& reductions);
  std::vector<Value> walk_inner(int level, const std::vector<int>& reductions);
  std::vector<Value> walk_run(const Expr& first, const Expr& length, int level, const std::vector<int>& reductions);
  std::vector<Value> combined(const std::vector<int>& reductions, std::vector<Value> values);
  std::vector<int> reductions_of(int level) const;
  int64_t piece_of(int level) const;
  bool is_ordered() const;
  Expr place_in_row() const;
  Expr split_pieces() const;
  template <typename Walk>
  std::vector<Value> in_piece(const Expr& piece, const Walk& walk);
  void compute_row_terms(int level);
  void store_results(bool rows, int level);
  Value value_of(int term);
  Value compute(int term);
  Value load(const Term& term, int id);
  Value element(ir::ValueId value, const Expr& index);
  std::vector<Expr> strides_of(ir::ValueId value) const;
  Expr index_of(const TermAccess& access, size_t slot);

  const ir::Graph& graph_;
  const Terms& terms_;
  const StridesOf& strides_of_memory_;
  const Generators& generators_;
  const bool is_epilogue_;
  const bool behind_images_;
  const bool by_rows_;
  Builder builder_;
  LoopNest nest_;
  std::vector<bool> needed_;       // per term
  std::vector<int> kept_;          // full terms that later walks read from a local row
  std::vector<ir::ValueId> made_;  // what is computed where it would be read
  int last_level_ = 0;
  bool is_split_ = false;    // threads share rows
  int64_t split_piece_ = 1;  // elements of a piece, where the row has one dimension

  Layout layout_;
  std::vector<std::vector<Expr>> strides_;        // per access: in the dimensions of the space
  std::vector<Expr> offsets_;                     // per access: elements before its place 0
  std::vector<size_t> slots_;                     // per term: of a load, its access
  std::vector<size_t> stores_;                    // per result: its access
  std::unordered_map<ir::ValueId, BufferId> in_;  // of what is read
  std::vector<BufferId> out_;                     // per result

  std::unordered_map<int, BufferId> rows_;    // of kept terms
  std::unordered_map<int, Value> values_;     // of row terms, and of full ones in the current walk
  std::unordered_map<int, BufferId> staged_;  // of loads that are read in tiles
  Expr in_tile_;                              // the current element of a tile
  std::vector<Expr> at_;                      // the current element, in each dimension of the layout
  Expr first_, length_;                       // the piece of the last dimension that is walked over
  BufferId sums_{};                           // of the product in front
  Expr sums_row_;                             // of the sums
  int walk_ = -1;                             // level of the current walk
};

// Which terms are computed at all, and which are kept from one walk to the next.
void NestWriter::choose_terms() {
  needed_.assign(terms_.size(), false);
  for (const ir::ValueId result : nest_.writes) {
    const TermResult& stored = terms_.result(result);
    need(stored.term, terms_.term(stored.term).level);
    for (const TermAccess::Index& index : stored.store.indices) need(index.term, 0);
  }
  const auto add_read = [&](ir::ValueId value) {
    auto& values = generators_.find(value) == nullptr ? nest_.reads : made_;
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
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
  const bool is_long = terms_.row_length().as_int().value_or(0) > kLongestKeptRow;
  const bool may_keep = !term.row && !terms_.is_by_columns() && !is_split_;
  if (may_keep && term.level < walk && term.cost >= kKeepCost && !is_long) {
    if (is_kept(id)) return;
    kept_.push_back(id);
    walk = term.level;
  }
  needed_[id] = true;
  // What a row term reads is read where it stands.
  for (const int arg : term.args) need(arg, term.row ? terms_.term(arg).level : walk);
  for (const TermAccess::Index& index : term.access.indices) need(index.term, walk);
  if (term.access.inside != ir::kNone) need(term.access.inside, walk);
  if (term.access.part != ir::kNone) need(terms_.part(term.access.part).inside, walk);
}

// Elements that are the same everywhere need no place.
std::vector<Expr> NestWriter::strides_of(ir::ValueId value) const {
  const Generator* made = generators_.find(value);
  if (made == nullptr) return strides_of_memory_(value);
  const ir::TensorType& type = graph_.value(value).tensor();
  return made->is_same_everywhere() ? std::vector<Expr>(type.sizes.size(), Expr(0)) : type.strides;
}

// Its strides in the dimensions of the space: 0 where it is broadcast. What it is shifted by is an offset.
size_t NestWriter::add_access(const TermAccess& access) {
  const std::vector<Expr> own = strides_of(access.value);
  std::vector<Expr> strides(terms_.space().size(), Expr(0));
  Expr offset = 0;
  for (size_t d = 0; d < access.dims.size(); ++d) {
    if (access.dims[d] == ir::kNone) continue;
    const bool steps = !access.scales.empty();
    strides[access.dims[d]] = strides[access.dims[d]] + (steps ? own[d] * access.scales[d] : own[d]);
    if (steps) offset = offset + own[d] * access.shifts[d];
  }
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
  const size_t row_rank = behind_images_ ? stay.size() - 2 : by_rows_ ? terms_.row_rank() : 0;
  layout_ = collapse({.space = terms_.space(),
                      .strides = strides_,
                      .stay = stay,
                      .row_rank = row_rank,
                      .by_columns = terms_.is_by_columns()});
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
    for (const Expr& stride : strides_of(id)) declare_symbols(stride);
  };
  for (const ir::ValueId id : made_) {
    declare_symbols(generators_.find(id)->first);
    declare_symbols(generators_.find(id)->step);
    declare_type(id);
  }
  for (const TermCheck& check : terms_.checks()) declare_type(check.index);
  for (const ir::ValueId id : nest_.reads) declare_type(id);
  for (const ir::ValueId id : nest_.writes) declare_type(id);
}

// Where the current element, or row, lies in the memory of a value.
Expr NestWriter::index_of(const TermAccess& access, size_t slot) {
  Expr index = offsets_[slot];
  for (size_t d = 0; d < at_.size(); ++d) index = index + at_[d] * layout_.strides[slot][d];
  if (access.indices.empty()) return index;
  const std::vector<Expr> strides = strides_of(access.value);
  for (const auto& [dim, term] : access.indices) index = index + loop::as_index(value_of(term)) * strides[dim];
  return index;
}

// One loop per dimension of the index, the last one in lanes.
void NestWriter::write_check(const TermCheck& check) {
  const auto& sizes = graph_.value(check.index).tensor().sizes;
  const std::vector<Expr> strides = strides_of(check.index);
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

// One dimension is a row; those of a matrix are evenly spaced.
bool NestWriter::has_rows_of_sums() const {
  return layout_.sizes.size() == layout_.row + 1 && (behind_images_ || layout_.row <= 1);
}

void NestWriter::write_epilogue() {
  at_.assign(layout_.sizes.size(), Expr(0));
  builder_.serial_for(product(layout_.sizes, 0, layout_.row), [&](const Expr& i) {
    set_outer(i, layout_.row);
    sums_row_ = i;
    first_ = 0;
    length_ = layout_.sizes.back();
    write_row();
  });
}

void NestWriter::write_loops() {
  if (is_epilogue_) return write_epilogue();
  for (const TermCheck& check : terms_.checks()) write_check(check);
  at_.assign(layout_.sizes.size(), Expr(0));
  first_ = 0;
  length_ = layout_.sizes.back();
  if (!by_rows_) return terms_.tile() == ir::kNone ? write_elements() : write_tiles();
  if (terms_.is_by_columns()) return is_split_ ? write_split_columns() : write_columns();
  is_split_ ? write_split_rows() : write_rows();
}

// The dimensions before `end`, from their places as one.
void NestWriter::set_outer(const Expr& row, size_t end) {
  Expr rest = row;
  for (size_t d = end; d-- > 0;) {
    at_[d] = d == 0 ? rest : Expr::make(ExprOp::kMod, {rest, layout_.sizes[d]});
    rest = Expr::make(ExprOp::kFloorDiv, {rest, layout_.sizes[d]});
  }
}

Expr grain_for(const Expr& walked) { return ceil_div(kGrainElements, Expr::make(ExprOp::kMax, {walked, Expr(1)})); }

// Nothing goes from one element to the next: rows may be cut.
void NestWriter::write_elements() {
  const Expr row = layout_.sizes.back();
  const Expr pieces = ceil_div(row, kPieceElements);
  const bool is_whole = pieces.is_int(1);
  const Expr rows = product(layout_.sizes, 0, layout_.sizes.size() - 1);
  builder_.parallel_for(rows * pieces, grain_for(is_whole ? row : Expr(kPieceElements)), [&](const Expr& i) {
    first_ = is_whole ? Expr(0) : Expr::make(ExprOp::kMod, {i, pieces}) * kPieceElements;
    length_ = is_whole ? row : Expr::make(ExprOp::kMin, {row - first_, Expr(kPieceElements)});
    set_outer(is_whole ? i : Expr::make(ExprOp::kFloorDiv, {i, pieces}), layout_.sizes.size() - 1);
    write_row();
  });
}

// Tiles in which some loads have neighbours along one side and the stores along the other one.
void NestWriter::write_tiles() {
  const size_t lane = layout_.sizes.size() - 1;
  const auto tile = static_cast<size_t>(layout_.place[static_cast<size_t>(terms_.tile())]);
  std::vector<Expr> blocks = layout_.sizes;
  for (const size_t d : {tile, lane}) blocks[d] = ceil_div(blocks[d], kTile);
  builder_.parallel_for(product(blocks, 0, blocks.size()), grain_for(kTile * kTile), [&](const Expr& i) {
    Expr rest = i;
    for (size_t d = blocks.size(); d-- > 0;) {
      at_[d] = d == 0 ? rest : Expr::make(ExprOp::kMod, {rest, blocks[d]});
      rest = Expr::make(ExprOp::kFloorDiv, {rest, blocks[d]});
    }
    const Expr first_row = at_[tile] * kTile;
    const Expr rows = Expr::make(ExprOp::kMin, {layout_.sizes[tile] - first_row, Expr(kTile)});
    first_ = at_[lane] * kTile;
    length_ = Expr::make(ExprOp::kMin, {layout_.sizes[lane] - first_, Expr(kTile)});
    stage_tile(tile, first_row, rows);
    builder_.serial_for(rows, [&](const Expr& r) {
      at_[tile] = first_row + r;
      in_tile_ = r;
      write_row();
    });
  });
}

// Puts what has its neighbours in the rows of a tile into local memory.
void NestWriter::stage_tile(size_t tile, const Expr& first_row, const Expr& rows) {
  for (int t = 0; t < terms_.size(); ++t) {
    const Term& term = terms_.term(t);
    if (!needed_[t] || term.kind != Term::Kind::kLoad || term.row || !term.access.is_plain()) continue;
    if (!in_.contains(term.access.value)) continue;
    const std::vector<Expr>& strides = layout_.strides[slots_[t]];
    if (strides.back().is_int(0) || strides.back().is_int(1) || !strides[tile].is_int(1)) continue;
    const DType dtype = graph_.value(term.access.value).tensor().dtype;
    const BufferId local = staged_.emplace(t, builder_.local(cat("tile", t), dtype, Expr(kTile * kTile))).first->second;
    builder_.serial_for(length_, [&](const Expr& c) {
      builder_.vector_for(rows, [&](const Expr& r) {
        at_.back() = first_ + c;
        at_[tile] = first_row + r;
        const Expr index = index_of(term.access, slots_[t]);
        builder_.store(local, c * kTile + r, builder_.load(in_.at(term.access.value), index));
      });
    });
  }
}

void NestWriter::write_rows() {
  const Expr walked = product(layout_.sizes, layout_.row, layout_.sizes.size());
  builder_.parallel_for(product(layout_.sizes, 0, layout_.row), grain_for(walked), [&](const Expr& i) {
    set_outer(i, layout_.row);
    write_row();
  });
}

// Neighbouring rows in lanes; each walks over its elements.
void NestWriter::write_columns() {
  const size_t lane = layout_.row - 1;
  const Expr columns = layout_.sizes[lane];
  const Expr blocks = ceil_div(columns, kColumns);
  const Expr walked = product(layout_.sizes, layout_.row, layout_.sizes.size()) * kColumns;
  builder_.parallel_for(product(layout_.sizes, 0, lane) * blocks, grain_for(walked), [&](const Expr& i) {
    set_outer(Expr::make(ExprOp::kFloorDiv, {i, blocks}), lane);
    const Expr first = Expr::make(ExprOp::kMod, {i, blocks}) * kColumns;
    builder_.vector_for(Expr::make(ExprOp::kMin, {columns - first, Expr(kColumns)}), [&](const Expr& j) {
      at_[lane] = first + j;
      write_row();
    });
  });
}

// Whether the order of a row's elements matters: for scans, and for the places of extremes.
bool NestWriter::is_ordered() const {
  for (int t = 0; t < terms_.size(); ++t) {
    if (terms_.term(t).kind == Term::Kind::kScan || terms_.term(t).to_place) return true;
  }
  return false;
}

// Whether the rows are so few and so long that threads share each of them. Depends on sizes alone.
bool NestWriter::is_split() const {
  if (is_epilogue_ || !by_rows_ || is_ordered() || !terms_.checks().empty()) return false;
  const std::vector<Expr>& space = terms_.space();
  const size_t row = space.size() - terms_.row_rank();
  const size_t lane = terms_.is_by_columns() ? row - 1 : row;
  const auto is_one = [](const Expr& size) { return size.is_int(1); };
  if (!std::all_of(space.begin(), space.begin() + static_cast<ptrdiff_t>(lane), is_one)) return false;
  const int64_t length = terms_.row_length().as_int().value_or(kSplitElements);
  if (!terms_.is_by_columns()) return length >= kSplitElements;
  const int64_t columns = space[lane].as_int().value_or(kFewColumns);
  const auto ends_walk = [&](ir::ValueId id) {
    const Term& term = terms_.term(terms_.result(id).term);
    return term.row && term.level == 1;
  };
  const bool is_one_walk = std::all_of(nest_.writes.begin(), nest_.writes.end(), ends_walk);
  return is_one_walk && columns < kFewColumns && length * std::max<int64_t>(columns, 1) >= kSplitElements;
}

// Pieces of the first dimension of a row that is split: what a thread takes at a time.
Expr NestWriter::split_pieces() const {
  const bool is_one = layout_.row + 1 == layout_.sizes.size();
  return is_one ? ceil_div(layout_.sizes[layout_.row], split_piece_) : layout_.sizes[layout_.row];
}

template <typename Walk>
std::vector<Value> NestWriter::in_piece(const Expr& piece, const Walk& walk) {
  const std::unordered_map<int, Value> outside = values_;
  std::vector<Value> values;
  if (layout_.row + 1 < layout_.sizes.size()) {
    at_[layout_.row] = piece;
    values = walk(layout_.row + 1);
  } else {
    first_ = piece * split_piece_;
    length_ = Expr::make(ExprOp::kMin, {layout_.sizes.back() - first_, Expr(split_piece_)});
    values = walk(layout_.row);
  }
  values_ = outside;
  return values;
}

// One row: each walk is a parallel loop over its pieces.
void NestWriter::write_split_rows() {
  split_piece_ = kPieceElements;
  const Expr pieces = split_pieces();
  const Expr piece_length = ceil_div(terms_.row_length(), Expr::make(ExprOp::kMax, {pieces, Expr(1)}));
  for (int level = 0; level <= last_level_; ++level) {
    compute_row_terms(level);
    if (!has_work(level)) continue;
    const std::vector<int> reductions = reductions_of(level);
    std::vector<BufferId> partial;
    builder_.parallel_for(pieces, grain_for(piece_length), [&](const Expr& p) {
      const auto values = in_piece(p, [&](size_t dim) {
        walk_ = level;
        return walk_over(dim, level, reductions);
      });
      for (size_t r = 0; r < reductions.size(); ++r) {
        partial.push_back(builder_.shared(cat("part", reductions[r]), values[r].dtype(), pieces));
        builder_.store(partial[r], p, values[r]);
      }
    });
    if (reductions.empty()) continue;
    const Expr p = builder_.begin_for(loop::For::Kind::kVector, pieces);
    std::vector<Value> values;
    for (const BufferId part : partial) values.push_back(builder_.load(part, p));
    values = combined(reductions, std::move(values));
    builder_.end_for();
    for (size_t r = 0; r < reductions.size(); ++r) values_.insert_or_assign(reductions[r], values[r]);
  }
  store_results(true, last_level_);
}

// A few columns: pieces of all of them, then what the pieces come to.
void NestWriter::write_split_columns() {
  const size_t lane = layout_.row - 1;
  const Expr columns = layout_.sizes[lane];
  split_piece_ = std::max<int64_t>(kColumnPiece, kGrainElements / std::max<int64_t>(columns.as_int().value_or(1), 1));
  const Expr pieces = split_pieces();
  NG_CHECK(last_level_ == 1, "columns of several walks are not split");
  const std::vector<int> reductions = reductions_of(0);
  std::vector<BufferId> partial;
  builder_.parallel_for(pieces, 1, [&](const Expr& p) {
    builder_.vector_for(columns, [&](const Expr& j) {
      at_[lane] = j;
      values_.clear();
      compute_row_terms(0);
      const auto values = in_piece(p, [&](size_t dim) {
        walk_ = 0;
        return walk_over(dim, 0, reductions);
      });
      for (size_t r = 0; r < reductions.size(); ++r) {
        partial.push_back(builder_.shared(cat("part", reductions[r]), values[r].dtype(), pieces * columns));
        builder_.store(partial[r], p * columns + j, values[r]);
      }
    });
  });
  builder_.vector_for(columns, [&](const Expr& j) {
    at_[lane] = j;
    values_.clear();
    const Expr p = builder_.begin_for(loop::For::Kind::kSerial, pieces);
    std::vector<Value> values;
    for (const BufferId part : partial) values.push_back(builder_.load(part, p * columns + j));
    values = combined(reductions, std::move(values));
    builder_.end_for();
    for (size_t r = 0; r < reductions.size(); ++r) values_.insert_or_assign(reductions[r], values[r]);
    compute_row_terms(0);
    compute_row_terms(1);
    store_results(true, 1);
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
  for (size_t d = layout_.row; d < at_.size(); ++d) at_[d] = 0;
  for (int t = 0; t < terms_.size(); ++t) {
    const Term& term = terms_.term(t);
    if (needed_[t] && term.row && term.level == level) value_of(t);
  }
}

std::vector<int> NestWriter::reductions_of(int level) const {
  std::vector<int> reductions;
  for (int t = 0; t < terms_.size(); ++t) {
    const Term& term = terms_.term(t);
    if (needed_[t] && term.kind == Term::Kind::kReduce && term.level == level + 1) reductions.push_back(t);
  }
  return reductions;
}

// Whether a walk at this level computes anything.
bool NestWriter::has_work(int level) const {
  const auto is_level = [&](int t) { return terms_.term(t).level == level; };
  return !reductions_of(level).empty() || std::any_of(kept_.begin(), kept_.end(), is_level) ||
         std::any_of(nest_.writes.begin(), nest_.writes.end(), [&](ir::ValueId result) {
           const int t = terms_.result(result).term;
           return !terms_.term(t).row && is_level(t);
         });
}

// How many elements are combined one by one before what they come to is added to the others; 0: all of them.
int64_t NestWriter::piece_of(int level) const {
  const std::vector<int> reductions = reductions_of(level);
  const auto is_sum = [&](int t) { return terms_.term(t).combine == loop::Combine::kSum; };
  if (is_ordered() || std::none_of(reductions.begin(), reductions.end(), is_sum)) return 0;
  const int64_t piece = terms_.is_by_columns() ? kColumnPiece : kPieceElements;
  const int64_t otherwise = terms_.is_by_columns() ? 2 * piece + 1 : 0;
  return layout_.sizes.back().as_int().value_or(otherwise) > 2 * piece && !is_whole_piece() ? piece : 0;
}

void NestWriter::write_walk(int level) {
  if (!has_work(level)) return;
  const std::vector<int> reductions = reductions_of(level);
  walk_ = level;
  const std::unordered_map<int, Value> of_rows = values_;
  const std::vector<Value> values = walk_over(layout_.row, level, reductions);
  values_ = of_rows;
  for (size_t i = 0; i < reductions.size(); ++i) values_.insert_or_assign(reductions[i], values[i]);
}

std::vector<Value> NestWriter::combined(const std::vector<int>& reductions, std::vector<Value> values) {
  for (size_t i = 0; i < reductions.size(); ++i)
    values[i] = builder_.reduce(terms_.term(reductions[i]).combine, values[i]);
  return values;
}

// Loops over the dimensions of the row from `dim` on. Gives what the reductions come to.
std::vector<Value> NestWriter::walk_over(size_t dim, int level, const std::vector<int>& reductions) {
  if (dim + 1 == layout_.sizes.size()) return walk_inner(level, reductions);
  at_[dim] = builder_.begin_for(loop::For::Kind::kSerial, layout_.sizes[dim]);
  std::vector<Value> values = combined(reductions, walk_over(dim + 1, level, reductions));
  builder_.end_for();
  return values;
}

std::vector<Value> NestWriter::walk_inner(int level, const std::vector<int>& reductions) {
  const int64_t piece = piece_of(level);
  if (piece == 0) return walk_run(first_, length_, level, reductions);
  const Expr first = builder_.begin_for(loop::For::Kind::kSerial, ceil_div(length_, piece)) * piece;
  const Expr length = Expr::make(ExprOp::kMin, {length_ - first, Expr(piece)});
  std::vector<Value> values = combined(reductions, walk_run(first_ + first, length, level, reductions));
  builder_.end_for();
  return values;
}

// Where the current element is in its row.
Expr NestWriter::place_in_row() const {
  Expr place = 0;
  for (size_t d = layout_.row; d < at_.size(); ++d) place = place * layout_.sizes[d] + at_[d];
  return place;
}

std::vector<Value> NestWriter::walk_run(const Expr& first, const Expr& length, int level,
                                        const std::vector<int>& reductions) {
  const auto kind = terms_.is_by_columns() ? loop::For::Kind::kSerial : loop::For::Kind::kVector;
  at_.back() = first + builder_.begin_for(kind, length);
  for (const int t : kept_) {
    if (terms_.term(t).level != level) continue;
    const Value value = value_of(t);
    const Expr elements = product(layout_.sizes, layout_.row, layout_.sizes.size());
    const auto row = rows_.emplace(t, builder_.local(cat("row", t), value.dtype(), elements)).first;
    builder_.store(row->second, place_in_row(), value);
  }
  store_results(false, level);
  std::vector<Value> values;
  for (const int t : reductions) {
    const Term& term = terms_.term(t);
    const Value value = value_of(term.args[0]);
    values.push_back(term.to_place ? builder_.reduce_with_index(term.combine, value).index
                                   : builder_.reduce(term.combine, value));
  }
  builder_.end_for();
  return values;
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
    for (size_t d = layout_.row; rows && d < at_.size(); ++d) at_[d] = 0;
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

// Where a part is left, or there is no element, nothing is read.
Value NestWriter::load(const Term& term, int id) {
  const TermAccess& access = term.access;
  if (access.value == ir::kNone) return builder_.load(sums_, sums_row_ * layout_.sizes.back() + at_.back());
  if (const auto staged = staged_.find(id); staged != staged_.end())
    return builder_.load(staged->second, (at_.back() - first_) * kTile + in_tile_);
  const Expr index = index_of(access, slots_[id]);
  std::optional<Value> inside;
  for (const int condition : {access.inside, access.part == ir::kNone ? ir::kNone : terms_.part(access.part).inside}) {
    if (condition != ir::kNone) inside = inside ? *inside & value_of(condition) : value_of(condition);
  }
  if (!inside) return element(access.value, index);
  const DType dtype = graph_.value(access.value).tensor().dtype;
  const Value outside = loop::cast(builder_.constant(DType::kF64, access.outside), dtype);
  const auto memory = in_.find(access.value);
  if (memory == in_.end()) return loop::select(*inside, element(access.value, index), outside);
  return builder_.load(memory->second, index, *inside, outside);
}

// What lies `index` elements behind the first one of a value.
Value NestWriter::element(ir::ValueId value, const Expr& index) {
  const Generator* made = generators_.find(value);
  if (made == nullptr) return builder_.load(in_.at(value), index);
  return emit_element(builder_, *made, graph_.value(value).tensor().dtype, index);
}

Value NestWriter::compute(int id) {
  const Term& term = terms_.term(id);
  if (!term.row && term.level < walk_ && rows_.contains(id)) return builder_.load(rows_.at(id), place_in_row());
  switch (term.kind) {
    case Term::Kind::kLoad: return load(term, id);
    case Term::Kind::kPlace: return builder_.index(at_[static_cast<size_t>(layout_.place[term.dim])]);
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
                        const StridesOf& strides_of, const Generators& generators) {
  return *NestWriter(graph, terms, results, strides_of, generators, std::nullopt).write();
}

std::optional<LoopNest> make_epilogue(const ir::Graph& graph, const Terms& terms,
                                      const std::vector<ir::ValueId>& results, const StridesOf& strides_of,
                                      const Generators& generators, Sums sums) {
  return NestWriter(graph, terms, results, strides_of, generators, sums).write();
}

}  // namespace npugraph::lower
