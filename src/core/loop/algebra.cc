// SPDX-License-Identifier: Apache-2.0
#include "loop/algebra.h"

#include <bit>
#include <cmath>

#include "loop/evaluate.h"
#include "loop/op.h"

namespace npugraph::loop {
namespace {

DType type(const Definitions& definitions, ValueId id) { return (*definitions.dtypes)[id]; }

// The definition of `id` if its operator is `op`, else null.
const Let* find(const Definitions& definitions, ValueId id, Op op) {
  const Let* let = definitions.find(id);
  return let != nullptr && let->op == op ? let : nullptr;
}

// Whether `id` is this constant, the sign of a zero included.
bool is_constant(const Definitions& definitions, ValueId id, double number) {
  const Let* let = find(definitions, id, Op::kConstant);
  if (let == nullptr) return false;
  const DType dtype = type(definitions, id);
  if (is_floating(dtype)) return let->number == Scalar::of_float(number);
  return !std::signbit(number) && let->number.as_int() == static_cast<int64_t>(number);
}

bool is_all_ones(const Definitions& definitions, ValueId id) {
  const Let* let = find(definitions, id, Op::kConstant);
  if (let == nullptr) return false;
  const DType dtype = type(definitions, id);
  return constant_bits(dtype, let->number) == identity_of(Combine::kAnd, dtype);
}

bool is_commutative(Op op) {
  switch (op) {
    case Op::kAdd:
    case Op::kMul:
    case Op::kBitAnd:
    case Op::kBitOr:
    case Op::kBitXor:
    case Op::kEq:
    case Op::kNe: return true;
    default: return false;
  }
}

// Whether op(a, unit) is a.
bool is_right_unit(const Definitions& definitions, Op op, ValueId unit) {
  const bool is_float = is_floating(type(definitions, unit));
  switch (op) {
    case Op::kAdd: return is_constant(definitions, unit, is_float ? -0.0 : 0.0);
    case Op::kMul:
    case Op::kDiv: return is_constant(definitions, unit, 1);
    case Op::kTruncDiv:
    case Op::kFloorDiv: return !is_float && is_constant(definitions, unit, 1);
    case Op::kSub:
    case Op::kBitOr:
    case Op::kBitXor:
    case Op::kShiftLeft:
    case Op::kShiftRight: return is_constant(definitions, unit, 0);
    case Op::kBitAnd: return is_all_ones(definitions, unit);
    default: return false;
  }
}

// Whether op(a, decisive) is `decisive` for every a.
bool is_decisive(const Definitions& definitions, Op op, ValueId decisive) {
  if (op == Op::kBitOr) return is_all_ones(definitions, decisive);
  if (op == Op::kMul && is_floating(type(definitions, decisive))) return false;
  return (op == Op::kBitAnd || op == Op::kMul) && is_constant(definitions, decisive, 0);
}

std::optional<ValueId> find_same_binary(const Let& let, const Definitions& definitions) {
  const ValueId a = let.args[0];
  const ValueId b = let.args[1];
  const bool idempotent = let.op == Op::kMin || let.op == Op::kMax || let.op == Op::kBitAnd || let.op == Op::kBitOr;
  if (a == b && idempotent) return a;
  if (is_right_unit(definitions, let.op, b)) return a;
  if (is_decisive(definitions, let.op, b)) return b;
  if (!is_commutative(let.op)) return std::nullopt;
  if (is_right_unit(definitions, let.op, a)) return b;
  return is_decisive(definitions, let.op, a) ? std::optional(a) : std::nullopt;
}

std::optional<ValueId> find_same_unary(const Let& let, const Definitions& definitions) {
  const ValueId a = let.args[0];
  switch (let.op) {
    case Op::kNeg:
    case Op::kBitNot: {
      const Let* inner = find(definitions, a, let.op);
      return inner == nullptr ? std::nullopt : std::optional(inner->args[0]);
    }
    case Op::kAbs:
    case Op::kFloor:
    case Op::kCeil:
    case Op::kTrunc:
    case Op::kRound: return find(definitions, a, let.op) == nullptr ? std::nullopt : std::optional(a);
    case Op::kCast: {
      if (type(definitions, a) == type(definitions, let.id)) return a;
      const Let* inner = find(definitions, a, Op::kCast);
      if (inner == nullptr || type(definitions, inner->args[0]) != type(definitions, let.id)) return std::nullopt;
      return is_exact_cast(type(definitions, let.id), type(definitions, a)) ? std::optional(inner->args[0])
                                                                            : std::nullopt;
    }
    case Op::kBitcast: return type(definitions, a) == type(definitions, let.id) ? std::optional(a) : std::nullopt;
    default: return std::nullopt;
  }
}

std::optional<ValueId> find_same_select(const Let& let, const Definitions& definitions) {
  if (let.args[1] == let.args[2]) return let.args[1];
  const Let* condition = find(definitions, let.args[0], Op::kConstant);
  if (condition == nullptr) return std::nullopt;
  return let.args[condition->number.as_bool() ? 1 : 2];
}

bool fold(Let& let, const Definitions& definitions) {
  std::vector<DType> types;
  std::vector<Bits> args;
  for (const ValueId arg : let.args) {
    const Let* constant = find(definitions, arg, Op::kConstant);
    if (constant == nullptr) return false;
    types.push_back(type(definitions, arg));
    args.push_back(constant_bits(types.back(), constant->number));
  }
  const DType dtype = type(definitions, let.id);
  const std::optional<Bits> result = evaluate(let.op, types, args, dtype);
  const std::optional<Scalar> number = result ? constant_number(dtype, *result) : std::nullopt;
  if (!number) return false;
  let = Let{let.id, Op::kConstant, {}, *number, {}};
  return true;
}

// Makes cast(cast(x)) one cast of x if the inner one is exact. Not from an integer through a float to an integer:
// numbers that do not fit are cut off in another way.
bool skip_exact_cast(Let& let, const Definitions& definitions) {
  const Let* inner = find(definitions, let.args[0], Op::kCast);
  if (inner == nullptr) return false;
  const DType from = type(definitions, inner->args[0]);
  const DType through = type(definitions, inner->id);
  const bool to_integer = is_integer(type(definitions, let.id));
  if (!is_exact_cast(from, through) || (to_integer && is_integer(from) && is_floating(through))) return false;
  let.args[0] = inner->args[0];
  return true;
}

// Number of bits that hold the magnitude of every value; for floats, the significand.
int digits(DType dtype) {
  switch (dtype) {
    case DType::kBool: return 1;
    case DType::kF16: return 11;
    case DType::kBF16: return 8;
    case DType::kF32: return 24;
    case DType::kF64: return 53;
    default: return static_cast<int>(size_of(dtype)) * 8 - (is_signed_integer(dtype) ? 1 : 0);
  }
}

}  // namespace

bool is_exact_cast(DType from, DType to) {
  if (from == to) return true;
  const bool wide = to == DType::kF32 || to == DType::kF64;
  if (is_floating(from)) return wide && !(from == DType::kF64 || (from == DType::kF32 && to == DType::kF32));
  if (is_floating(to)) return size_of(to) > 1 && digits(from) <= digits(to);
  if (to == DType::kBool) return false;
  return digits(from) <= digits(to) && (!is_signed_integer(from) || is_signed_integer(to));
}

std::optional<ValueId> find_same(const Let& let, const Definitions& definitions) {
  switch (let.args.size()) {
    case 1: return find_same_unary(let, definitions);
    case 2: return find_same_binary(let, definitions);
    case 3: return let.op == Op::kSelect ? find_same_select(let, definitions) : std::nullopt;
    default: return std::nullopt;
  }
}

bool reduce_work(Let& let, const Definitions& definitions) {
  if (let.op == Op::kIndex && let.index.as_int()) {
    let = Let{let.id, Op::kConstant, {}, Scalar::of_int(*let.index.as_int()), {}};
    return true;
  }
  if (let.args.empty()) return false;
  if (fold(let, definitions)) return true;
  if (let.op == Op::kCast) return skip_exact_cast(let, definitions);
  if (let.op == Op::kAbs) {
    const Let* negation = find(definitions, let.args[0], Op::kNeg);
    if (negation != nullptr) let.args[0] = negation->args[0];
    return negation != nullptr;
  }
  if (!is_commutative(let.op) || let.args[0] <= let.args[1]) return false;
  std::swap(let.args[0], let.args[1]);
  return true;
}

std::optional<Scalar> exact_reciprocal(const Let& let, const Definitions& definitions) {
  if (let.op != Op::kDiv) return std::nullopt;
  const Let* divisor = find(definitions, let.args[1], Op::kConstant);
  if (divisor == nullptr) return std::nullopt;
  int exponent = 0;
  const double mantissa = std::frexp(divisor->number.f, &exponent);
  // With these exponents, the divisor and its reciprocal are normal numbers in both f32 and f64.
  if (std::abs(mantissa) != 0.5 || std::abs(exponent) > 100) return std::nullopt;
  return Scalar::of_float(1 / divisor->number.f);
}

}  // namespace npugraph::loop
