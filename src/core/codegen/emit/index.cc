// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/index.h"

#include <algorithm>

#include "base/error.h"

namespace npugraph::codegen {

using llvm::ArrayRef;
using llvm::Value;
using Args = llvm::SmallVector<Value*, 4>;

namespace {

bool is_positive_constant(Value* value) {
  auto* constant = llvm::dyn_cast<llvm::Constant>(value);
  if (constant && constant->getType()->isVectorTy()) constant = constant->getSplatValue();
  auto* number = llvm::dyn_cast_or_null<llvm::ConstantInt>(constant);
  return number && number->getSExtValue() > 0;
}

// The quotient rounded down, and its remainder. Numbers with lanes are below 2^52, so that a division of doubles gives
// the quotient exactly, for all lanes at once. A divisor of zero must not trap.
struct Division {
  Value* quotient;
  Value* remainder;
};

Division floor_divide(Ir& b, Value* x, Value* y) {
  Value* one = llvm::ConstantInt::get(y->getType(), 1);
  if (!llvm::isa<llvm::Constant>(y)) y = b.CreateSelect(b.CreateIsNull(y), one, y);
  Value* quotient;
  if (const int lanes = lanes_of(x); lanes > 0 && !llvm::isa<llvm::Constant>(y)) {
    llvm::Type* wide = in_lanes(b.getDoubleTy(), lanes);
    quotient = b.CreateFPToSI(b.CreateFDiv(b.CreateSIToFP(x, wide), b.CreateSIToFP(y, wide)), x->getType());
  } else {
    quotient = b.CreateSDiv(x, y);
  }
  Value* remainder = b.CreateSub(x, b.CreateMul(quotient, y));
  Value* zero = llvm::Constant::getNullValue(x->getType());
  Value* below = is_positive_constant(y)
                     ? b.CreateICmpSLT(remainder, zero)
                     : b.CreateAnd(b.CreateICmpNE(remainder, zero), b.CreateICmpSLT(b.CreateXor(remainder, y), zero));
  return {b.CreateSelect(below, b.CreateSub(quotient, one), quotient),
          b.CreateSelect(below, b.CreateAdd(remainder, y), remainder)};
}

// Makes the arguments all scalars or all vectors.
void unify_lanes(Ir& b, Args& args) {
  int lanes = 0;
  for (Value* arg : args) lanes = std::max(lanes, lanes_of(arg));
  for (Value*& arg : args) arg = splat(b, arg, lanes);
}

Value* fold(ArrayRef<Value*> args, const std::function<Value*(Value*, Value*)>& combine) {
  Value* out = args.front();
  for (Value* arg : args.drop_front()) out = combine(out, arg);
  return out;
}

}  // namespace

IndexEmitter::IndexEmitter(Ir& b) : b_(b) { scopes_.emplace_back(); }

void IndexEmitter::open_scope(llvm::Instruction* entry) {
  scopes_.emplace_back();
  scopes_.back().entry = entry;
}

void IndexEmitter::open_barrier() {
  scopes_.emplace_back();
  scopes_.back().barrier = true;
}

void IndexEmitter::close_scope() {
  scopes_.pop_back();
  std::erase_if(symbols_, [&](const auto& row) { return row.second.depth > depth(); });
  if (!symbols_.contains(rising_)) lanes_ = 0;
}

void IndexEmitter::bind_lanes(const std::string& name, Value* first, int lanes) {
  symbols_[name] = {first, depth(), true};
  rising_ = name;
  lanes_ = lanes;
}

const IndexEmitter::Symbol& IndexEmitter::symbol(const Expr& e) const {
  const auto found = symbols_.find(e.symbol_name());
  NG_CHECK(found != symbols_.end(), "an index names the unknown symbol ", e.symbol_name());
  return found->second;
}

bool IndexEmitter::has_lanes(const Expr& e) const {
  if (e.op() == ExprOp::kSymbol) return symbol(e).rises || is_vector(symbol(e).value);
  return std::any_of(e.args().begin(), e.args().end(), [this](const Expr& arg) { return has_lanes(arg); });
}

int IndexEmitter::home_of(int depth) const {
  for (int outer = this->depth(); outer > depth; --outer)
    if (scopes_[static_cast<size_t>(outer)].barrier) return outer;
  return depth;
}

void IndexEmitter::enter(int home) {
  for (size_t inner = static_cast<size_t>(home) + 1; inner < scopes_.size(); ++inner)
    if (scopes_[inner].entry != nullptr) return b_.SetInsertPoint(scopes_[inner].entry);
}

Value* IndexEmitter::emit(const Expr& e) { return compute(e, has_lanes(e)).value; }

IndexEmitter::Computed IndexEmitter::compute_symbol(const Expr& e, bool lanes) {
  const Symbol& found = symbol(e);
  if (!lanes || !found.rises) return {found.value, found.depth};
  // The symbol is bound at the head of its scope, hence before all code of the scope.
  const Ir::InsertPointGuard guard(b_);
  enter(found.depth);
  return {b_.CreateAdd(splat(b_, found.value, lanes_), lane_numbers(b_, lanes_)), found.depth};
}

IndexEmitter::Computed IndexEmitter::compute(const Expr& e, bool lanes) {
  if (e.is_constant()) {
    const Scalar value = e.value();
    NG_CHECK(value.kind != ScalarKind::kFloat, "an index with the float ", e.str());
    return {value.kind == ScalarKind::kBool ? b_.getInt1(value.i != 0) : b_.getInt64(static_cast<uint64_t>(value.i)),
            0};
  }
  for (Scope& scope : scopes_) {
    auto& known = lanes ? scope.lanes : scope.first;
    if (const auto found = known.find(e); found != known.end())
      return {found->second, static_cast<int>(&scope - scopes_.data())};
  }
  Computed out;
  if (e.op() == ExprOp::kSymbol) {
    out = compute_symbol(e, lanes);
    if (!lanes) return out;
  } else if (e.op() == ExprOp::kAdd || e.op() == ExprOp::kMul) {
    out = compute_sum(e, lanes);
  } else {
    Args args;
    int deepest = 0;
    for (const Expr& arg : e.args()) {
      const Computed computed = compute(arg, lanes && has_lanes(arg));
      args.push_back(computed.value);
      deepest = std::max(deepest, computed.depth);
    }
    out.depth = home_of(deepest);
    const Ir::InsertPointGuard guard(b_);
    enter(out.depth);
    unify_lanes(b_, args);
    out.value = apply(e.op(), args);
  }
  Scope& scope = scopes_[static_cast<size_t>(out.depth)];
  (lanes ? scope.lanes : scope.first).emplace(e, out.value);
  return out;
}

// Sums and products: operands that are known in an outer scope are combined there.
IndexEmitter::Computed IndexEmitter::compute_sum(const Expr& e, bool lanes) {
  std::vector<Computed> parts;
  for (const Expr& arg : e.args()) parts.push_back(compute(arg, lanes && has_lanes(arg)));
  std::stable_sort(parts.begin(), parts.end(), [](const Computed& a, const Computed& c) { return a.depth < c.depth; });
  Computed out = parts.front();
  for (size_t i = 1; i < parts.size(); ++i) {
    out.depth = home_of(parts[i].depth);
    const Ir::InsertPointGuard guard(b_);
    enter(out.depth);
    Args pair = {out.value, parts[i].value};
    unify_lanes(b_, pair);
    out.value = apply(e.op(), pair);
  }
  return out;
}

Value* IndexEmitter::apply(ExprOp op, ArrayRef<Value*> args) {
  const auto intrinsic = [&](llvm::Intrinsic::ID id) {
    return fold(args, [&](Value* x, Value* y) { return b_.CreateBinaryIntrinsic(id, x, y); });
  };
  Value* x = args.front();
  switch (op) {
    case ExprOp::kAdd: return fold(args, [&](Value* p, Value* q) { return b_.CreateNSWAdd(p, q); });
    case ExprOp::kMul: return fold(args, [&](Value* p, Value* q) { return b_.CreateNSWMul(p, q); });
    case ExprOp::kFloorDiv: return floor_divide(b_, x, args[1]).quotient;
    case ExprOp::kMod: return floor_divide(b_, x, args[1]).remainder;
    case ExprOp::kCeilDiv: return b_.CreateNeg(floor_divide(b_, b_.CreateNeg(x), args[1]).quotient);
    case ExprOp::kMin: return intrinsic(llvm::Intrinsic::smin);
    case ExprOp::kMax: return intrinsic(llvm::Intrinsic::smax);
    case ExprOp::kShiftLeft: return b_.CreateShl(x, args[1]);
    case ExprOp::kShiftRight:
      return b_.CreateAShr(
          x, b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, args[1], llvm::ConstantInt::get(args[1]->getType(), 63)));
    case ExprOp::kAnd:
    case ExprOp::kBitAnd: return fold(args, [&](Value* p, Value* q) { return b_.CreateAnd(p, q); });
    case ExprOp::kOr:
    case ExprOp::kBitOr: return fold(args, [&](Value* p, Value* q) { return b_.CreateOr(p, q); });
    case ExprOp::kBitXor: return b_.CreateXor(x, args[1]);
    case ExprOp::kNot: return b_.CreateNot(x);
    case ExprOp::kNeg: return b_.CreateNeg(x);
    case ExprOp::kAbs: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b_.getFalse());
    case ExprOp::kToInt: return b_.CreateZExt(x, in_lanes(b_.getInt64Ty(), lanes_of(x)));
    case ExprOp::kEq: return b_.CreateICmpEQ(x, args[1]);
    case ExprOp::kNe: return b_.CreateICmpNE(x, args[1]);
    case ExprOp::kLt: return b_.CreateICmpSLT(x, args[1]);
    case ExprOp::kLe: return b_.CreateICmpSLE(x, args[1]);
    case ExprOp::kWhere: return b_.CreateSelect(x, args[1], args[2]);
    default: NG_CHECK(false, "an index with operator ", static_cast<int>(op));
  }
}

// By how much `e` rises per lane, as an expression without lanes; nullopt if it does not rise evenly.
std::optional<Expr> IndexEmitter::step_of(const Expr& e) const {
  if (!has_lanes(e)) return Expr(0);
  if (e.op() == ExprOp::kSymbol) return symbol(e).rises ? std::optional(Expr(1)) : std::nullopt;
  if (e.op() == ExprOp::kAdd) {
    Expr total;
    for (const Expr& term : e.args()) {
      const std::optional<Expr> step = step_of(term);
      if (!step) return std::nullopt;
      total = total + *step;
    }
    return total;
  }
  if (e.op() != ExprOp::kMul) return std::nullopt;
  std::optional<Expr> step;
  Expr factors = 1;
  for (const Expr& factor : e.args()) {
    if (!has_lanes(factor))
      factors = factors * factor;
    else if (step)
      return std::nullopt;
    else if (!(step = step_of(factor)))
      return std::nullopt;
  }
  return *step * factors;
}

Place IndexEmitter::place(const Expr& e) {
  using Kind = Place::Kind;
  if (!has_lanes(e)) return {Kind::kUniform, nullptr, compute(e, false).value};
  const std::optional<Expr> step = step_of(e);
  if (!step) return {Kind::kAnywhere, nullptr, compute(e, true).value};
  Value* first = compute(e, false).value;
  if (step->is_int(0)) return {Kind::kUniform, nullptr, first};
  if (step->is_int(1)) return {Kind::kUp, nullptr, first};
  if (step->is_int(-1)) return {Kind::kDown, nullptr, first};
  Value* steps = b_.CreateMul(lane_numbers(b_, lanes_), splat(b_, compute(*step, false).value, lanes_));
  return {Kind::kAnywhere, nullptr, b_.CreateAdd(splat(b_, first, lanes_), steps)};
}

Value* IndexEmitter::splat_outside(Value* value, int depth, int lanes) {
  if (lanes == 0 || is_vector(value) || llvm::isa<llvm::Constant>(value)) return splat(b_, value, lanes);
  const int outside = home_of(std::max({depth, this->depth() - 1, 0}));
  Scope& scope = scopes_[static_cast<size_t>(outside)];
  Value*& known = scope.splats[value];
  if (known == nullptr || lanes_of(known) != lanes) {
    const Ir::InsertPointGuard guard(b_);
    enter(outside);
    known = splat(b_, value, lanes);
  }
  return known;
}

}  // namespace npugraph::codegen
