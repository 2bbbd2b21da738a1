// SPDX-License-Identifier: Apache-2.0
// Random expressions against an evaluator of their own, which knows nothing of normalisation.
#include <array>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "tensor/expr_test_util.h"

namespace npugraph {
namespace {

constexpr int kSymbols = 3;
constexpr int kTrees = 1000;
constexpr int kPoints = 12;

using Point = std::array<int64_t, kSymbols>;
using Maybe = std::optional<__int128>;

// An integer expression before normalisation.
struct Tree {
  ExprOp op = ExprOp::kConst;
  int64_t number = 0;  // value of a constant, index of a symbol
  std::vector<Tree> args;
};

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  int64_t number(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  Tree integer(int depth) {
    if (depth == 0 || number(0, 5) == 0) return leaf();
    static constexpr ExprOp kOps[] = {ExprOp::kAdd, ExprOp::kAdd,      ExprOp::kMul, ExprOp::kMul,  ExprOp::kFloorDiv,
                                      ExprOp::kMod, ExprOp::kFloorDiv, ExprOp::kMod, ExprOp::kMin,  ExprOp::kMax,
                                      ExprOp::kNeg, ExprOp::kCeilDiv,  ExprOp::kAbs, ExprOp::kWhere};
    const ExprOp op = kOps[number(0, std::size(kOps) - 1)];
    if (op == ExprOp::kWhere) return {op, 0, {condition(depth - 1), integer(depth - 1), integer(depth - 1)}};
    if (op == ExprOp::kNeg || op == ExprOp::kAbs) return {op, 0, {integer(depth - 1)}};
    return {op, 0, {integer(depth - 1), integer(depth - 1)}};
  }

  Point point() {
    Point p;
    for (int64_t& v : p) v = number(0, 3) == 0 ? number(-20, 20) : number(1, 12);
    return p;
  }

 private:
  Tree leaf() {
    if (number(0, 2) != 0) return {ExprOp::kSymbol, number(0, kSymbols - 1), {}};
    static constexpr int64_t kNumbers[] = {-64, -7, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12, 64};
    return {ExprOp::kConst, kNumbers[number(0, std::size(kNumbers) - 1)], {}};
  }

  Tree condition(int depth) {
    static constexpr ExprOp kOps[] = {ExprOp::kEq, ExprOp::kNe, ExprOp::kLt, ExprOp::kLe, ExprOp::kNot, ExprOp::kAnd};
    const ExprOp op = kOps[number(0, depth == 0 ? 3 : 5)];
    if (op == ExprOp::kNot) return {op, 0, {condition(depth - 1)}};
    if (op == ExprOp::kAnd) return {op, 0, {condition(depth - 1), condition(depth - 1)}};
    return {op, 0, {integer(depth), integer(depth)}};
  }

  std::mt19937 random_;
};

Expr build(const Tree& tree) {
  if (tree.op == ExprOp::kConst) return tree.number;
  if (tree.op == ExprOp::kSymbol) return Expr::symbol(cat("s", tree.number));
  std::vector<Expr> args;
  for (const Tree& arg : tree.args) args.push_back(build(arg));
  return Expr::make(tree.op, std::move(args));
}

// Rounds towards minus infinity.
__int128 floor_div(__int128 a, __int128 b) {
  __int128 q = a / b;
  while (q * b > a && b > 0) --q;
  while (q * b < a && b < 0) --q;
  return q;
}

// Returns nothing if there is a division by zero.
Maybe reference(const Tree& tree, const Point& point) {
  if (tree.op == ExprOp::kConst) return tree.number;
  if (tree.op == ExprOp::kSymbol) return point[static_cast<size_t>(tree.number)];
  std::vector<__int128> v;
  for (const Tree& arg : tree.args) {
    Maybe x = reference(arg, point);
    if (!x) return std::nullopt;
    v.push_back(*x);
  }
  switch (tree.op) {
    case ExprOp::kAdd: return v[0] + v[1];
    case ExprOp::kMul: return v[0] * v[1];
    case ExprOp::kNeg: return -v[0];
    case ExprOp::kAbs: return v[0] < 0 ? -v[0] : v[0];
    case ExprOp::kMin: return std::min(v[0], v[1]);
    case ExprOp::kMax: return std::max(v[0], v[1]);
    case ExprOp::kFloorDiv: return v[1] == 0 ? Maybe() : floor_div(v[0], v[1]);
    case ExprOp::kMod: return v[1] == 0 ? Maybe() : v[0] - floor_div(v[0], v[1]) * v[1];
    case ExprOp::kCeilDiv: return v[1] == 0 ? Maybe() : -floor_div(-v[0], v[1]);
    case ExprOp::kEq: return v[0] == v[1];
    case ExprOp::kNe: return v[0] != v[1];
    case ExprOp::kLt: return v[0] < v[1];
    case ExprOp::kLe: return v[0] <= v[1];
    case ExprOp::kNot: return !v[0];
    case ExprOp::kAnd: return v[0] && v[1];
    case ExprOp::kWhere: return v[0] ? v[1] : v[2];
    default: ADD_FAILURE() << "operator without a reference"; return std::nullopt;
  }
}

Values values_of(const Point& point) {
  Values values;
  for (int i = 0; i < kSymbols; ++i) values[cat("s", i)] = Scalar::of_int(point[static_cast<size_t>(i)]);
  return values;
}

TEST(ExprRandom, NormalisationKeepsValues) {
  Generator generator(1);
  int compared = 0;
  for (int i = 0; i < kTrees; ++i) {
    const Tree tree = generator.integer(4);
    const Expr e = build(tree);
    for (int j = 0; j < kPoints; ++j) {
      const Point point = generator.point();
      const Maybe expected = reference(tree, point);
      if (!expected) continue;
      ++compared;
      ASSERT_EQ(value(e, values_of(point)).i, static_cast<int64_t>(*expected))
          << e.str() << " at " << point[0] << ", " << point[1] << ", " << point[2];
    }
  }
  EXPECT_GT(compared, kTrees * kPoints / 2);
}

TEST(ExprRandom, TextRoundTrips) {
  Generator generator(2);
  for (int i = 0; i < kTrees; ++i) {
    const Expr e = build(generator.integer(4));
    const Expr again = expr(e.str());
    ASSERT_EQ(again, e) << e.str() << " reads as " << again.str();
    ASSERT_EQ(again.str(), e.str());
    ASSERT_EQ(again.hash(), e.hash());
  }
}

TEST(ExprRandom, NormalisationIsIdempotent) {
  Generator generator(3);
  for (int i = 0; i < kTrees; ++i) {
    const Expr e = build(generator.integer(4));
    if (e.args().empty()) continue;
    ASSERT_EQ(Expr::make(e.op(), {e.args().begin(), e.args().end()}), e) << e.str();
  }
}

TEST(ExprRandom, SubstitutionCommutesWithEvaluation) {
  Generator generator(4);
  for (int i = 0; i < kTrees; ++i) {
    const Tree tree = generator.integer(3);
    const Point point = generator.point();
    const Maybe expected = reference(tree, point);
    if (!expected) continue;
    auto constant = [&](const Expr& symbol) { return Expr(point[static_cast<size_t>(symbol.symbol_name()[1] - '0')]); };
    const Expr folded = substitute(build(tree), constant);
    ASSERT_TRUE(folded.is_int(static_cast<int64_t>(*expected))) << build(tree).str() << " folds to " << folded.str();
  }
}

// a*b + c*b in all orders of sums and products.
TEST(ExprRandom, RingIdentitiesHold) {
  Generator generator(5);
  for (int i = 0; i < kTrees; ++i) {
    const Expr a = build(generator.integer(2));
    const Expr b = build(generator.integer(2));
    const Expr c = build(generator.integer(2));
    ASSERT_EQ(a + b, b + a);
    ASSERT_EQ((a + b) + c, a + (b + c));
    ASSERT_EQ(a * b, b * a);
    ASSERT_EQ((a * b) * c, a * (b * c));
    ASSERT_EQ(a * (b + c), a * b + a * c);
    ASSERT_EQ(a - a, Expr(0));
  }
}

}  // namespace
}  // namespace npugraph
