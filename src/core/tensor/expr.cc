// SPDX-License-Identifier: Apache-2.0
#include "tensor/expr.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "base/error.h"
#include "base/hash.h"
#include "base/words.h"
#include "tensor/expr_node.h"
#include "tensor/lexer.h"

namespace npugraph {

namespace {

// Indexed by ExprOp.
constexpr std::array<OpInfo, 40> kOps = {{
    {ExprOp::kConst, "", 0, 0, ArgRule::kAny},
    {ExprOp::kSymbol, "", 0, 0, ArgRule::kAny},
    {ExprOp::kAdd, "add", 0, -1, ArgRule::kNumbers},
    {ExprOp::kMul, "mul", 0, -1, ArgRule::kNumbers},
    {ExprOp::kFloorDiv, "floordiv", 2, 2, ArgRule::kNumbers},
    {ExprOp::kMod, "mod", 2, 2, ArgRule::kNumbers},
    {ExprOp::kCeilDiv, "ceildiv", 2, 2, ArgRule::kInts},
    {ExprOp::kMin, "min", 1, -1, ArgRule::kNumbers},
    {ExprOp::kMax, "max", 1, -1, ArgRule::kNumbers},
    {ExprOp::kPow, "pow", 2, 2, ArgRule::kNumbers},
    {ExprOp::kShiftLeft, "shl", 2, 2, ArgRule::kInts},
    {ExprOp::kShiftRight, "shr", 2, 2, ArgRule::kInts},
    {ExprOp::kBitAnd, "bitand", 2, 2, ArgRule::kBits},
    {ExprOp::kBitOr, "bitor", 2, 2, ArgRule::kBits},
    {ExprOp::kBitXor, "bitxor", 2, 2, ArgRule::kBits},
    {ExprOp::kTrueDiv, "truediv", 2, 2, ArgRule::kFloats},
    {ExprOp::kNeg, "neg", 1, 1, ArgRule::kNumbers},
    {ExprOp::kAbs, "abs", 1, 1, ArgRule::kNumbers},
    {ExprOp::kFloor, "floor", 1, 1, ArgRule::kAny},
    {ExprOp::kCeil, "ceil", 1, 1, ArgRule::kAny},
    {ExprOp::kTrunc, "trunc", 1, 1, ArgRule::kAny},
    {ExprOp::kRound, "round", 1, 1, ArgRule::kAny},
    {ExprOp::kSqrt, "sqrt", 1, 1, ArgRule::kFloats},
    {ExprOp::kExp, "exp", 1, 1, ArgRule::kFloats},
    {ExprOp::kLog, "log", 1, 1, ArgRule::kFloats},
    {ExprOp::kLog2, "log2", 1, 1, ArgRule::kFloats},
    {ExprOp::kSin, "sin", 1, 1, ArgRule::kFloats},
    {ExprOp::kCos, "cos", 1, 1, ArgRule::kFloats},
    {ExprOp::kTan, "tan", 1, 1, ArgRule::kFloats},
    {ExprOp::kTanh, "tanh", 1, 1, ArgRule::kFloats},
    {ExprOp::kToFloat, "to_float", 1, 1, ArgRule::kAny},
    {ExprOp::kToInt, "to_int", 1, 1, ArgRule::kAny},
    {ExprOp::kEq, "eq", 2, 2, ArgRule::kComparable},
    {ExprOp::kNe, "ne", 2, 2, ArgRule::kComparable},
    {ExprOp::kLt, "lt", 2, 2, ArgRule::kComparable},
    {ExprOp::kLe, "le", 2, 2, ArgRule::kComparable},
    {ExprOp::kAnd, "and", 1, -1, ArgRule::kBools},
    {ExprOp::kOr, "or", 1, -1, ArgRule::kBools},
    {ExprOp::kNot, "not", 1, 1, ArgRule::kBools},
    {ExprOp::kWhere, "where", 3, 3, ArgRule::kCondition},
}};

size_t hash_scalar(Scalar value) { return hash_of(static_cast<int>(value.kind), std::bit_cast<int64_t>(value.i)); }

bool is_reserved(std::string_view name) {
  return name == "true" || name == "false" || name == "inf" || name == "nan" || name == "none";
}

void check_arity(const OpInfo& info, size_t count) {
  NG_CHECK(!info.name.empty(), "constants and symbols are not made from arguments");
  const bool fits =
      count >= static_cast<size_t>(info.min_args) && (info.max_args < 0 || count <= static_cast<size_t>(info.max_args));
  if (fits) return;
  throw UserError(cat(info.name, " takes ", info.max_args < 0 ? "at least " : "", counted(info.min_args, "argument"),
                      ", got ", count));
}

ScalarKind widest(std::span<const Expr> args, ScalarKind at_least) {
  auto rank = [](ScalarKind kind) { return kind == ScalarKind::kFloat ? 2 : kind == ScalarKind::kInt ? 1 : 0; };
  ScalarKind kind = at_least;
  for (const Expr& arg : args)
    if (rank(arg.kind()) > rank(kind)) kind = arg.kind();
  return kind;
}

void convert(std::span<Expr> args, ScalarKind kind) {
  for (Expr& arg : args) {
    if (arg.kind() == kind) continue;
    arg = Expr::make(kind == ScalarKind::kFloat ? ExprOp::kToFloat : ExprOp::kToInt, {arg});
  }
}

void require(const OpInfo& info, std::span<const Expr> args, bool (*allowed)(ScalarKind), const char* what) {
  for (const Expr& arg : args)
    if (!allowed(arg.kind())) throw UserError(cat(info.name, " takes ", what, ", got ", arg.str()));
}

bool is_bool(ScalarKind kind) { return kind == ScalarKind::kBool; }
bool is_not_float(ScalarKind kind) { return kind != ScalarKind::kFloat; }

// Checks and converts the arguments by the operator's rule; returns the kind of the result.
ScalarKind convert_arguments(const OpInfo& info, std::vector<Expr>& args) {
  switch (info.rule) {
    case ArgRule::kNumbers: {
      ScalarKind kind = widest(args, ScalarKind::kInt);
      convert(args, kind);
      return kind;
    }
    case ArgRule::kFloats: convert(args, ScalarKind::kFloat); return ScalarKind::kFloat;
    case ArgRule::kAny: return info.op == ExprOp::kToFloat ? ScalarKind::kFloat : ScalarKind::kInt;
    case ArgRule::kInts:
      require(info, args, is_not_float, "integers");
      convert(args, ScalarKind::kInt);
      return ScalarKind::kInt;
    case ArgRule::kBits: {
      require(info, args, is_not_float, "integers or booleans");
      ScalarKind kind = widest(args, ScalarKind::kBool);
      convert(args, kind);
      return kind;
    }
    case ArgRule::kComparable: convert(args, widest(args, ScalarKind::kBool)); return ScalarKind::kBool;
    case ArgRule::kBools: require(info, args, is_bool, "booleans"); return ScalarKind::kBool;
    case ArgRule::kCondition: {
      require(info, std::span(args).first(1), is_bool, "a boolean as its condition");
      std::span<Expr> arms = std::span(args).subspan(1);
      ScalarKind kind = widest(arms, ScalarKind::kBool);
      convert(arms, kind);
      return kind;
    }
  }
  NG_CHECK(false, "rule of ", info.name);
}

std::strong_ordering compare_symbols(const ExprNode& a, const ExprNode& b) {
  if (auto order = a.name.size() <=> b.name.size(); order != 0) return order;
  if (auto order = a.name.compare(b.name) <=> 0; order != 0) return order;
  return a.kind <=> b.kind;
}

void collect_from(const Expr& e, std::vector<std::string>& out) {
  if (e.op() == ExprOp::kSymbol && std::find(out.begin(), out.end(), e.symbol_name()) == out.end())
    out.push_back(e.symbol_name());
  for (const Expr& arg : e.args()) collect_from(arg, out);
}

}  // namespace

const OpInfo& info_of(ExprOp op) { return kOps[static_cast<size_t>(op)]; }

const OpInfo* find_function(std::string_view name) {
  auto row = std::find_if(kOps.begin(), kOps.end(), [&](const OpInfo& info) { return info.name == name; });
  return row == kOps.end() || name.empty() ? nullptr : &*row;
}

Scalar Scalar::of_int(int64_t v) {
  Scalar s;
  s.i = v;
  return s;
}

Scalar Scalar::of_float(double v) {
  Scalar s;
  s.kind = ScalarKind::kFloat;
  s.f = v;
  return s;
}

Scalar Scalar::of_bool(bool v) {
  Scalar s;
  s.kind = ScalarKind::kBool;
  s.i = v;
  return s;
}

int64_t Scalar::as_int() const {
  if (kind != ScalarKind::kFloat) return i;
  Applied truncated = apply_op(ExprOp::kTrunc, {this, 1});
  if (truncated.error) throw UserError(cat(f, ": ", truncated.error));
  return truncated.value.i;
}

double Scalar::as_float() const { return kind == ScalarKind::kFloat ? f : static_cast<double>(i); }

bool Scalar::as_bool() const { return kind == ScalarKind::kFloat ? f != 0 : i != 0; }

bool Scalar::operator==(const Scalar& other) const {
  if (kind != other.kind) return false;
  return kind == ScalarKind::kFloat ? std::bit_cast<int64_t>(f) == std::bit_cast<int64_t>(other.f) : i == other.i;
}

Expr::Expr(int64_t value) : constant_(Scalar::of_int(value)) {}

Expr::Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}

Expr Expr::constant(Scalar value) {
  Expr e;
  e.constant_ = value;
  // The text form has only one NaN, so all NaNs become that one.
  if (value.kind == ScalarKind::kFloat && value.f != value.f) e.constant_.f = std::numeric_limits<double>::quiet_NaN();
  return e;
}

Expr Expr::symbol(std::string name, ScalarKind kind) {
  if (!is_identifier(name) || is_reserved(name))
    throw UserError(cat("'", name,
                        "' is no name of a symbol; a name is [A-Za-z_][A-Za-z0-9_.]* and none of true, false, ",
                        "inf, nan, none"));
  return ExprNode::create_symbol(std::move(name), kind);
}

Expr Expr::make(ExprOp op, std::vector<Expr> args) {
  const OpInfo& info = info_of(op);
  check_arity(info, args.size());
  ScalarKind kind = convert_arguments(info, args);
  return normalize(op, kind, std::move(args));
}

Scalar Expr::value() const {
  NG_CHECK(is_constant(), str(), " is no constant");
  return constant_;
}

ScalarKind Expr::kind() const { return node_ ? node_->kind : constant_.kind; }

ExprOp Expr::op() const { return node_ ? node_->op : ExprOp::kConst; }

const std::string& Expr::symbol_name() const {
  NG_CHECK(op() == ExprOp::kSymbol, str(), " is no symbol");
  return node_->name;
}

std::span<const Expr> Expr::args() const {
  return node_ ? std::span<const Expr>(node_->args) : std::span<const Expr>();
}

bool Expr::operator==(const Expr& other) const {
  if (node_ == other.node_) return node_ || constant_ == other.constant_;
  if (!node_ || !other.node_ || node_->hash != other.node_->hash) return false;
  return compare(*this, other) == 0;
}

size_t Expr::hash() const { return node_ ? node_->hash : hash_scalar(constant_); }

Expr ExprNode::create(ExprOp op, ScalarKind kind, std::vector<Expr> args) {
  int depth = 1;
  int64_t size = 1;
  size_t hash = hash_of(static_cast<int>(op), static_cast<int>(kind));
  for (const Expr& arg : args) {
    depth = std::max(depth, arg.node_ ? arg.node_->depth + 1 : 1);
    size += arg.node_ ? arg.node_->size : 1;
    hash_combine(hash, arg.hash());
  }
  if (depth > kMaxExprDepth)
    throw UserError(cat("an expression nests deeper than ", kMaxExprDepth, " levels, at ", info_of(op).name));
  if (size > kMaxExprSize)
    throw UserError(cat("an expression has more than ", kMaxExprSize, " parts, at ", info_of(op).name));
  return Expr(std::make_shared<const ExprNode>(ExprNode{op, kind, depth, size, hash, {}, std::move(args)}));
}

Expr ExprNode::create_symbol(std::string name, ScalarKind kind) {
  size_t hash = hash_of(name, static_cast<int>(kind));
  return Expr(std::make_shared<const ExprNode>(ExprNode{ExprOp::kSymbol, kind, 1, 1, hash, std::move(name), {}}));
}

bool is_unexpanded(const Expr& e) {
  return e.op() == ExprOp::kMul && e.kind() == ScalarKind::kInt && e.args()[0].op() == ExprOp::kAdd;
}

std::strong_ordering compare(const Expr& a, const Expr& b) {
  const ExprNode* x = ExprNode::get(a);
  const ExprNode* y = ExprNode::get(b);
  if (!x && !y) {
    Scalar u = a.value();
    Scalar v = b.value();
    if (auto order = u.kind <=> v.kind; order != 0) return order;
    return u.kind == ScalarKind::kFloat ? std::bit_cast<int64_t>(u.f) <=> std::bit_cast<int64_t>(v.f) : u.i <=> v.i;
  }
  if (x == y) return std::strong_ordering::equal;
  if (auto order = a.op() <=> b.op(); order != 0) return order;
  if (x->op == ExprOp::kSymbol) return compare_symbols(*x, *y);
  if (auto order = x->kind <=> y->kind; order != 0) return order;
  if (auto order = x->args.size() <=> y->args.size(); order != 0) return order;
  for (size_t i = 0; i < x->args.size(); ++i)
    if (auto order = compare(x->args[i], y->args[i]); order != 0) return order;
  return std::strong_ordering::equal;
}

void collect_symbols(const Expr& e, std::vector<std::string>& out) { collect_from(e, out); }

Expr substitute(const Expr& e, const std::function<Expr(const Expr& symbol)>& lookup) {
  if (e.is_constant()) return e;
  if (e.op() == ExprOp::kSymbol) return lookup(e);
  std::vector<Expr> args;
  args.reserve(e.args().size());
  bool changed = false;
  for (const Expr& arg : e.args()) {
    args.push_back(substitute(arg, lookup));
    changed = changed || args.back() != arg;
  }
  return changed ? Expr::make(e.op(), std::move(args)) : e;
}

bool is_nonnegative(const Expr& e) {
  if (e.is_constant()) return e.as_int().value_or(-1) >= 0;
  switch (e.op()) {
    case ExprOp::kSymbol: return e.kind() == ScalarKind::kInt;
    case ExprOp::kMod: return is_nonnegative(e.args()[1]);  // it has the sign of the divisor
    case ExprOp::kAdd:
    case ExprOp::kMul:
    case ExprOp::kFloorDiv:
    case ExprOp::kCeilDiv:
    case ExprOp::kMin: return std::ranges::all_of(e.args(), is_nonnegative);
    case ExprOp::kMax: return std::ranges::any_of(e.args(), is_nonnegative);
    default: return false;
  }
}

}  // namespace npugraph
