// SPDX-License-Identifier: Apache-2.0
#include "loop/op.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/words.h"

namespace npugraph::loop {
namespace {

// Indexed by Op.
constexpr std::array<OpInfo, kNumOps> kOps = {{
    {Op::kConstant, "constant", 0, TypeRule::kLeaf},
    {Op::kIndex, "index", 0, TypeRule::kLeaf},
    {Op::kScalar, "scalar", 0, TypeRule::kLeaf},
    {Op::kSqrt, "sqrt", 1, TypeRule::kFloat},
    {Op::kRsqrt, "rsqrt", 1, TypeRule::kFloat},
    {Op::kExp, "exp", 1, TypeRule::kFloat},
    {Op::kExp2, "exp2", 1, TypeRule::kFloat},
    {Op::kExpm1, "expm1", 1, TypeRule::kFloat},
    {Op::kLog, "log", 1, TypeRule::kFloat},
    {Op::kLog2, "log2", 1, TypeRule::kFloat},
    {Op::kLog10, "log10", 1, TypeRule::kFloat},
    {Op::kLog1p, "log1p", 1, TypeRule::kFloat},
    {Op::kSin, "sin", 1, TypeRule::kFloat},
    {Op::kCos, "cos", 1, TypeRule::kFloat},
    {Op::kTan, "tan", 1, TypeRule::kFloat},
    {Op::kAsin, "asin", 1, TypeRule::kFloat},
    {Op::kAcos, "acos", 1, TypeRule::kFloat},
    {Op::kAtan, "atan", 1, TypeRule::kFloat},
    {Op::kSinh, "sinh", 1, TypeRule::kFloat},
    {Op::kCosh, "cosh", 1, TypeRule::kFloat},
    {Op::kTanh, "tanh", 1, TypeRule::kFloat},
    {Op::kErf, "erf", 1, TypeRule::kFloat},
    {Op::kErfc, "erfc", 1, TypeRule::kFloat},
    {Op::kSigmoid, "sigmoid", 1, TypeRule::kFloat},
    {Op::kReciprocal, "reciprocal", 1, TypeRule::kFloat},
    {Op::kFloor, "floor", 1, TypeRule::kFloat},
    {Op::kCeil, "ceil", 1, TypeRule::kFloat},
    {Op::kTrunc, "trunc", 1, TypeRule::kFloat},
    {Op::kRound, "round", 1, TypeRule::kFloat},
    {Op::kNeg, "neg", 1, TypeRule::kNumber},
    {Op::kAbs, "abs", 1, TypeRule::kNumber},
    {Op::kSign, "sign", 1, TypeRule::kNumber},
    {Op::kAdd, "add", 2, TypeRule::kNumber},
    {Op::kSub, "sub", 2, TypeRule::kNumber},
    {Op::kMul, "mul", 2, TypeRule::kNumber},
    {Op::kMin, "min", 2, TypeRule::kNumber},
    {Op::kMax, "max", 2, TypeRule::kNumber},
    {Op::kDiv, "div", 2, TypeRule::kFloat},
    {Op::kFma, "fma", 3, TypeRule::kFloat},
    {Op::kPow, "pow", 2, TypeRule::kFloat},
    {Op::kAtan2, "atan2", 2, TypeRule::kFloat},
    {Op::kFmod, "fmod", 2, TypeRule::kNumber},
    {Op::kFloorMod, "floormod", 2, TypeRule::kNumber},
    {Op::kTruncDiv, "truncdiv", 2, TypeRule::kNumber},
    {Op::kFloorDiv, "floordiv", 2, TypeRule::kNumber},
    {Op::kBitAnd, "bitand", 2, TypeRule::kBits},
    {Op::kBitOr, "bitor", 2, TypeRule::kBits},
    {Op::kBitXor, "bitxor", 2, TypeRule::kBits},
    {Op::kBitNot, "bitnot", 1, TypeRule::kBits},
    {Op::kShiftLeft, "shl", 2, TypeRule::kInteger},
    {Op::kShiftRight, "shr", 2, TypeRule::kInteger},
    {Op::kEq, "eq", 2, TypeRule::kCompare},
    {Op::kNe, "ne", 2, TypeRule::kCompare},
    {Op::kLt, "lt", 2, TypeRule::kCompare},
    {Op::kLe, "le", 2, TypeRule::kCompare},
    {Op::kGt, "gt", 2, TypeRule::kCompare},
    {Op::kGe, "ge", 2, TypeRule::kCompare},
    {Op::kIsNan, "isnan", 1, TypeRule::kIsNan},
    {Op::kSelect, "select", 3, TypeRule::kSelect},
    {Op::kCast, "cast", 1, TypeRule::kCast},
    {Op::kBitcast, "bitcast", 1, TypeRule::kBitcast},
}};

bool is_number(DType dtype) { return is_compute_float(dtype) || is_integer(dtype); }
bool is_bits(DType dtype) { return is_integer(dtype) || dtype == DType::kBool; }
bool is_number_or_bool(DType dtype) { return is_number(dtype) || dtype == DType::kBool; }

struct Class {
  bool (*holds)(DType);
  std::string_view words;
};

// The types that a rule allows for its arguments (for a select: those after the condition).
Class class_of(TypeRule rule) {
  switch (rule) {
    case TypeRule::kFloat:
    case TypeRule::kIsNan: return {is_compute_float, "f32 or f64"};
    case TypeRule::kNumber: return {is_number, "f32, f64 or an integer type"};
    case TypeRule::kInteger: return {is_integer, "an integer type"};
    case TypeRule::kBits: return {is_bits, "an integer type or bool"};
    case TypeRule::kCompare: return {is_number_or_bool, "f32, f64, an integer type or bool"};
    default: return {is_value_type, "a type that is not complex"};
  }
}

std::string check_same(std::string_view name, std::span<const DType> args, Class cls) {
  for (const DType dtype : args) {
    if (!cls.holds(dtype)) return cat(name, " takes ", cls.words, ", got ", name_of(dtype));
    if (dtype != args[0]) return cat(name, " takes one type, got ", name_of(args[0]), " and ", name_of(dtype));
  }
  return "";
}

std::string bitcast_error(DType from, DType to) {
  if (from == DType::kBool || to == DType::kBool) return "bitcast takes and gives no bool";
  if (size_of(from) == size_of(to)) return "";
  return cat("bitcast keeps the size, got ", name_of(from), " to ", name_of(to));
}

std::string args_error(const OpInfo& info, std::span<const DType> args) {
  if (args.size() != static_cast<size_t>(info.arity)) {
    return cat(info.name, " takes ", counted(info.arity, "argument"), ", got ", args.size());
  }
  if (info.rule == TypeRule::kSelect) {
    if (args[0] != DType::kBool) return cat("select takes a bool as its condition, got ", name_of(args[0]));
    args = args.subspan(1);
  }
  return check_same(info.name, args, class_of(info.rule));
}

}  // namespace

const OpInfo& info_of(Op op) {
  const auto index = static_cast<size_t>(op);
  NG_CHECK(index < kOps.size() && kOps[index].op == op, "operator number ", index);
  return kOps[index];
}

std::optional<Op> parse_op(std::string_view name) {
  const auto row = std::find_if(kOps.begin(), kOps.end(), [&](const OpInfo& info) { return info.name == name; });
  return row == kOps.end() ? std::nullopt : std::optional(row->op);
}

bool is_value_type(DType dtype) { return !is_complex(dtype); }
bool is_compute_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF64; }
bool is_integer(DType dtype) { return is_integral(dtype) && dtype != DType::kBool; }

bool is_signed_integer(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kI16 || dtype == DType::kI32 || dtype == DType::kI64;
}

std::optional<DType> result_type(Op op, std::span<const DType> args) {
  const OpInfo& info = info_of(op);
  switch (info.rule) {
    case TypeRule::kLeaf:
    case TypeRule::kCast:
    case TypeRule::kBitcast: return std::nullopt;
    case TypeRule::kCompare:
    case TypeRule::kIsNan: return DType::kBool;
    default: return args.empty() ? std::nullopt : std::optional(args.back());
  }
}

std::string type_error(Op op, std::span<const DType> args, DType result) {
  const OpInfo& info = info_of(op);
  if (std::string error = args_error(info, args); !error.empty()) return error;
  if (!is_value_type(result)) return cat(info.name, " gives no ", name_of(result));
  if (info.rule == TypeRule::kBitcast) return bitcast_error(args[0], result);
  const std::optional<DType> expected = result_type(op, args);
  if (!expected || *expected == result) return "";
  return cat(info.name, " gives ", name_of(*expected), " here, not ", name_of(result));
}

std::string type_error(Combine combine, DType dtype) {
  const bool bits = combine == Combine::kAnd || combine == Combine::kOr;
  const Class cls = class_of(bits ? TypeRule::kBits : TypeRule::kNumber);
  if (cls.holds(dtype)) return "";
  return cat(name_in(kCombineNames, combine), " takes ", cls.words, ", got ", name_of(dtype));
}

std::string index_name(ValueId id) { return cat("v", id); }

ValueId index_value(std::string_view name) {
  if (name.size() < 2 || name[0] != 'v' || (name[1] == '0' && name.size() > 2)) return kNone;
  ValueId id = kNone;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), id);
  return error == std::errc() && end == name.data() + name.size() && id >= 0 ? id : kNone;
}

}  // namespace npugraph::loop
