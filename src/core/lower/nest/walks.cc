// SPDX-License-Identifier: Apache-2.0
#include "lower/nest/walks.h"

#include <algorithm>

#include "lower/nest/cuts.h"

namespace npugraph::lower {

using loop::Value;

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
