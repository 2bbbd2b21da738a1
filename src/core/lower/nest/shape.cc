// SPDX-License-Identifier: Apache-2.0
#include "lower/nest/shape.h"

#include <algorithm>

#include "base/error.h"

namespace npugraph::lower {
namespace {

constexpr int64_t kGrains[] = {16384, 4096, 1024, 65536};

// Whether threads may share a row, which then has more than one piece.
bool may_split(const Terms& terms, const std::vector<ir::ValueId>& results) {
  if (!terms.walks_rows() || terms.is_ordered() || !terms.checks().empty()) return false;
  const std::vector<Expr>& space = terms.space();
  const size_t row = space.size() - terms.row_rank();
  const size_t lane = terms.is_by_columns() ? row - 1 : row;
  const auto is_one = [](const Expr& size) { return size.is_int(1); };
  if (!std::all_of(space.begin(), space.begin() + static_cast<ptrdiff_t>(lane), is_one)) return false;
  const int64_t length = terms.row_length().as_int().value_or(2 * kSumPiece);
  if (!terms.is_by_columns()) return length >= 2 * kSumPiece;
  const int64_t columns = space[lane].as_int().value_or(kFewColumns);
  const auto ends_walk = [&](ir::ValueId id) {
    const Term& term = terms.term(terms.result(id).term);
    return term.row && term.level == 1;
  };
  return std::all_of(results.begin(), results.end(), ends_walk) && columns < kFewColumns &&
         length * std::max<int64_t>(columns, 1) >= 2 * kSumPiece;
}

// Whether walks may need values again that earlier ones compute.
bool may_keep(const Terms& terms) {
  if (!terms.has_reductions() || terms.is_by_columns()) return false;
  for (int t = 0; t < terms.size(); ++t) {
    const Term& term = terms.term(t);
    if (!term.row && term.cost > 0) return true;
  }
  return false;
}

// Whether there are, or with symbolic sizes may be, more elements than this.
bool may_exceed(const Terms& terms, int64_t elements) {
  double count = 1;
  for (const Expr& size : terms.space()) {
    if (!size.as_int()) return true;
    count *= static_cast<double>(*size.as_int());
  }
  return count > static_cast<double>(elements);
}

// The shapes, apart from their grain.
std::vector<NestShape> forms_of(const Terms& terms, const std::vector<ir::ValueId>& results) {
  std::vector<NestShape> forms = {{}};
  if (!terms.walks_rows()) {
    if (terms.tile() != ir::kNone) return {{}, {.tile = 16}, {.tile = 64}};
    if (may_exceed(terms, NestShape().piece)) forms.push_back({.piece = 16384});
    if (may_exceed(terms, 1024)) forms.push_back({.piece = 1024});
    return forms;
  }
  if (may_keep(terms)) {
    forms.push_back({.keep_cost = 1});
    forms.push_back({.keep_cost = NestShape::kKeepsNothing});
  }
  if (terms.is_by_columns()) forms.push_back({.columns = 32});
  if (may_split(terms, results)) forms.push_back({.splits = true});
  return forms;
}

}  // namespace

std::string str(const NestShape& shape) {
  const NestShape usual;
  std::string text = cat("grain ", shape.grain);
  if (shape.piece != usual.piece) text += cat(" piece ", shape.piece);
  if (shape.columns != usual.columns) text += cat(" columns ", shape.columns);
  if (shape.tile != usual.tile) text += cat(" tile ", shape.tile);
  if (shape.keep_cost == NestShape::kKeepsNothing)
    text += " keeps nothing";
  else if (shape.keep_cost != usual.keep_cost)
    text += cat(" keeps costs of ", shape.keep_cost);
  if (shape.splits) text += " splits rows";
  return text;
}

std::vector<NestShape> nest_shapes(const Terms& terms, const std::vector<ir::ValueId>& results) {
  std::vector<NestShape> shapes;
  for (NestShape shape : forms_of(terms, results)) {
    for (const int64_t grain : kGrains) {
      shape.grain = grain;
      if (terms.walks_rows() || grain >= shape.piece) shapes.push_back(shape);
    }
  }
  return shapes;
}

}  // namespace npugraph::lower
