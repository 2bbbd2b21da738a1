// SPDX-License-Identifier: Apache-2.0
#include "loop/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "loop/op.h"
#include "tensor/convert.h"

namespace npugraph::loop {
namespace {

template <typename T>
Bits bits_of(T value) {
  Bits bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <typename T>
T value_of(Bits bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename Fn>
auto with_integer(DType dtype, Fn fn) {
  switch (dtype) {
    case DType::kU8: return fn(std::type_identity<uint8_t>{});
    case DType::kI8: return fn(std::type_identity<int8_t>{});
    case DType::kU16: return fn(std::type_identity<uint16_t>{});
    case DType::kI16: return fn(std::type_identity<int16_t>{});
    case DType::kU32: return fn(std::type_identity<uint32_t>{});
    case DType::kI32: return fn(std::type_identity<int32_t>{});
    case DType::kU64: return fn(std::type_identity<uint64_t>{});
    case DType::kI64: return fn(std::type_identity<int64_t>{});
    default: NG_CHECK(false, name_of(dtype), " is no integer type");
  }
}

// Types with arithmetic.
template <typename Fn>
auto with_number(DType dtype, Fn fn) {
  if (dtype == DType::kF32) return fn(std::type_identity<float>{});
  if (dtype == DType::kF64) return fn(std::type_identity<double>{});
  return with_integer(dtype, fn);
}

// All types except the 8-bit floats.
template <typename Fn>
auto with_type(DType dtype, Fn fn) {
  if (dtype == DType::kBool) return fn(std::type_identity<bool>{});
  if (dtype == DType::kF16) return fn(std::type_identity<Half>{});
  if (dtype == DType::kBF16) return fn(std::type_identity<BFloat16>{});
  return with_number(dtype, fn);
}

Bits cast(DType from, Bits bits, DType to) {
  if (from == to) return bits;
  if (is_float8(from)) return cast(DType::kF32, bits_of(float8_to_float(from, static_cast<uint8_t>(bits))), to);
  return with_type(from, [&](auto from_tag) {
    const auto value = value_of<typename decltype(from_tag)::type>(bits);
    if (is_float8(to)) return bits_of(float_to_float8(to, convert<float>(value)));
    return with_type(to, [&](auto to_tag) { return bits_of(convert<typename decltype(to_tag)::type>(value)); });
  });
}

template <typename Wide>
Wide apply_unary(Op op, Wide x) {
  switch (op) {
    case Op::kSqrt: return std::sqrt(x);
    case Op::kRsqrt: return 1 / std::sqrt(x);
    case Op::kExp: return std::exp(x);
    case Op::kExp2: return std::exp2(x);
    case Op::kExpm1: return std::expm1(x);
    case Op::kLog: return std::log(x);
    case Op::kLog2: return std::log2(x);
    case Op::kLog10: return std::log10(x);
    case Op::kLog1p: return std::log1p(x);
    case Op::kSin: return std::sin(x);
    case Op::kCos: return std::cos(x);
    case Op::kTan: return std::tan(x);
    case Op::kAsin: return std::asin(x);
    case Op::kAcos: return std::acos(x);
    case Op::kAtan: return std::atan(x);
    case Op::kSinh: return std::sinh(x);
    case Op::kCosh: return std::cosh(x);
    case Op::kTanh: return std::tanh(x);
    case Op::kErf: return std::erf(x);
    case Op::kErfc: return std::erfc(x);
    case Op::kSigmoid: return 1 / (1 + std::exp(-x));
    case Op::kReciprocal: return 1 / x;
    case Op::kFloor: return std::floor(x);
    case Op::kCeil: return std::ceil(x);
    case Op::kTrunc: return std::trunc(x);
    case Op::kRound: return std::nearbyint(x);
    default: NG_CHECK(false, info_of(op).name, " is no function of one float");
  }
}

template <typename T>
bool is_nan(T x) {
  return x != x;
}

template <typename T>
T smaller(T a, T b) {
  return is_nan(a) || a < b ? a : b;
}

template <typename T>
T larger(T a, T b) {
  return is_nan(a) || a > b ? a : b;
}

template <typename T>
T float_mod(T a, T b) {
  const T rest = std::fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

// The quotient that belongs to float_mod, corrected for rounding.
template <typename T>
T float_floor_div(T a, T b) {
  if (b == 0) return a / b;
  const T rest = std::fmod(a, b);
  T quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(T{0}, a / b);
  const T rounded = std::floor(quotient);
  return quotient - rounded > T{0.5} ? rounded + 1 : rounded;
}

template <typename T>
T float_sign(T x) {
  return is_nan(x) ? x : static_cast<T>((x > 0) - (x < 0));
}

template <typename T>
T apply_float(Op op, T a, T b, T c) {
  using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;
  switch (op) {
    case Op::kNeg: return -a;
    case Op::kAbs: return std::abs(a);
    case Op::kSign: return float_sign(a);
    case Op::kAdd: return a + b;
    case Op::kSub: return a - b;
    case Op::kMul: return a * b;
    case Op::kDiv: return a / b;
    case Op::kMin: return smaller(a, b);
    case Op::kMax: return larger(a, b);
    case Op::kFma: return std::fma(a, b, c);
    case Op::kPow: return static_cast<T>(std::pow(Wide{a}, Wide{b}));
    case Op::kAtan2: return static_cast<T>(std::atan2(Wide{a}, Wide{b}));
    case Op::kFmod: return std::fmod(a, b);
    case Op::kFloorMod: return float_mod(a, b);
    case Op::kTruncDiv: return std::trunc(a / b);
    case Op::kFloorDiv: return float_floor_div(a, b);
    default: return static_cast<T>(apply_unary<Wide>(op, a));
  }
}

// Wraps: sums and products are computed in 64 unsigned bits, whose low bits do not depend on the high ones.
template <typename T>
T wrap(uint64_t x) {
  return static_cast<T>(x);
}

template <typename T>
std::optional<T> divide(Op op, T a, T b) {
  if (b == 0) return std::nullopt;
  const bool remainder = op == Op::kFmod || op == Op::kFloorMod;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return remainder ? T{0} : wrap<T>(-static_cast<uint64_t>(a));
  }
  const auto quotient = static_cast<T>(a / b);
  const auto rest = static_cast<T>(a % b);
  const bool down = (op == Op::kFloorMod || op == Op::kFloorDiv) && rest != 0 && (rest < 0) != (b < 0);
  if (remainder) return down ? static_cast<T>(rest + b) : rest;
  return down ? static_cast<T>(quotient - 1) : quotient;
}

template <typename T>
T shift(Op op, T a, T amount) {
  constexpr int kBits = std::numeric_limits<std::make_unsigned_t<T>>::digits;
  const bool outside = amount < 0 || static_cast<uint64_t>(amount) >= kBits;
  if (op == Op::kShiftLeft) return outside ? T{0} : wrap<T>(static_cast<uint64_t>(a) << amount);
  if (outside) return a < 0 ? static_cast<T>(-1) : T{0};
  return static_cast<T>(a >> amount);
}

template <typename T>
std::optional<T> apply_integer(Op op, T a, T b) {
  const auto x = static_cast<uint64_t>(a);
  const auto y = static_cast<uint64_t>(b);
  switch (op) {
    case Op::kNeg: return wrap<T>(-x);
    case Op::kAbs: return a < 0 ? wrap<T>(-x) : a;
    case Op::kSign: return static_cast<T>((a > 0) - (a < 0));
    case Op::kAdd: return wrap<T>(x + y);
    case Op::kSub: return wrap<T>(x - y);
    case Op::kMul: return wrap<T>(x * y);
    case Op::kMin: return std::min(a, b);
    case Op::kMax: return std::max(a, b);
    case Op::kFmod:
    case Op::kFloorMod:
    case Op::kTruncDiv:
    case Op::kFloorDiv: return divide(op, a, b);
    case Op::kBitAnd: return wrap<T>(x & y);
    case Op::kBitOr: return wrap<T>(x | y);
    case Op::kBitXor: return wrap<T>(x ^ y);
    case Op::kBitNot: return wrap<T>(~x);
    case Op::kShiftLeft:
    case Op::kShiftRight: return shift(op, a, b);
    default: NG_CHECK(false, info_of(op).name, " of integers");
  }
}

bool apply_bool(Op op, bool a, bool b) {
  switch (op) {
    case Op::kBitAnd: return a && b;
    case Op::kBitOr: return a || b;
    case Op::kBitXor: return a != b;
    case Op::kBitNot: return !a;
    default: NG_CHECK(false, info_of(op).name, " of bools");
  }
}

template <typename T>
bool compare(Op op, T a, T b) {
  switch (op) {
    case Op::kEq: return a == b;
    case Op::kNe: return a != b;
    case Op::kLt: return a < b;
    case Op::kLe: return a <= b;
    case Op::kGt: return a > b;
    case Op::kGe: return a >= b;
    case Op::kIsNan: return is_nan(a);
    default: NG_CHECK(false, info_of(op).name, " is no comparison");
  }
}

Bits compare_bits(Op op, DType dtype, Bits a, Bits b) {
  if (dtype == DType::kBool) return compare(op, a != 0, b != 0);
  return with_number(dtype, [&](auto tag) -> Bits {
    using T = typename decltype(tag)::type;
    return compare(op, value_of<T>(a), value_of<T>(b));
  });
}

std::optional<Bits> apply_number(Op op, DType dtype, std::span<const Bits> args) {
  const auto arg = [&](size_t i) { return i < args.size() ? args[i] : 0; };
  return with_number(dtype, [&](auto tag) -> std::optional<Bits> {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_floating_point_v<T>) {
      return bits_of(apply_float(op, value_of<T>(arg(0)), value_of<T>(arg(1)), value_of<T>(arg(2))));
    } else {
      const std::optional<T> result = apply_integer(op, value_of<T>(arg(0)), value_of<T>(arg(1)));
      return result ? std::optional(bits_of(*result)) : std::nullopt;
    }
  });
}

Op op_of(Combine combine) {
  switch (combine) {
    case Combine::kSum: return Op::kAdd;
    case Combine::kProduct: return Op::kMul;
    case Combine::kMin: return Op::kMin;
    case Combine::kMax: return Op::kMax;
    case Combine::kAnd: return Op::kBitAnd;
    case Combine::kOr: return Op::kBitOr;
  }
  NG_CHECK(false, "combination ", static_cast<int>(combine));
}

template <typename T>
T identity(Combine combine) {
  using Limits = std::numeric_limits<T>;
  switch (combine) {
    case Combine::kSum:
    case Combine::kOr: return T{0};
    case Combine::kProduct: return T{1};
    case Combine::kMin: return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case Combine::kMax: return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case Combine::kAnd: return static_cast<T>(~uint64_t{0});
  }
  NG_CHECK(false, "combination ", static_cast<int>(combine));
}

}  // namespace

Bits constant_bits(DType dtype, Scalar number) {
  if (dtype == DType::kBool) return number.as_bool();
  if (is_floating(dtype)) return cast(DType::kF64, bits_of(number.as_float()), dtype);
  return cast(DType::kI64, bits_of(number.as_int()), dtype);
}

std::optional<Scalar> constant_number(DType dtype, Bits bits) {
  if (dtype == DType::kBool) return Scalar::of_bool(bits != 0);
  if (!is_floating(dtype)) return Scalar::of_int(integer_value(dtype, bits));
  const Scalar number = Scalar::of_float(value_of<double>(cast(dtype, bits, DType::kF64)));
  return constant_bits(dtype, number) == bits && !is_nan(number.f) ? std::optional(number) : std::nullopt;
}

int64_t integer_value(DType dtype, Bits bits) { return value_of<int64_t>(cast(dtype, bits, DType::kI64)); }

Bits load_bits(DType dtype, const void* data, int64_t index) {
  Bits bits = 0;
  std::memcpy(&bits, static_cast<const char*>(data) + index * size_of(dtype), size_of(dtype));
  return bits;
}

void store_bits(DType dtype, void* data, int64_t index, Bits bits) {
  std::memcpy(static_cast<char*>(data) + index * size_of(dtype), &bits, size_of(dtype));
}

std::optional<Bits> evaluate(Op op, std::span<const DType> types, std::span<const Bits> args, DType result) {
  switch (info_of(op).rule) {
    case TypeRule::kSelect: return args[0] != 0 ? args[1] : args[2];
    case TypeRule::kCast: return cast(types[0], args[0], result);
    case TypeRule::kBitcast: return args[0];
    case TypeRule::kCompare: return compare_bits(op, types[0], args[0], args[1]);
    case TypeRule::kIsNan: return compare_bits(op, types[0], args[0], args[0]);
    case TypeRule::kLeaf: NG_CHECK(false, info_of(op).name, " has no arguments to evaluate");
    default: break;
  }
  if (result == DType::kBool) return apply_bool(op, args[0] != 0, args.back() != 0);
  return apply_number(op, result, args);
}

Bits identity_of(Combine combine, DType dtype) {
  if (dtype == DType::kBool) return combine == Combine::kAnd;
  return with_number(dtype, [&](auto tag) { return bits_of(identity<typename decltype(tag)::type>(combine)); });
}

Bits combine_bits(Combine combine, DType dtype, Bits a, Bits b) {
  const Op op = op_of(combine);
  const Bits args[] = {a, b};
  if (dtype == DType::kBool) return apply_bool(op, a != 0, b != 0);
  return *apply_number(op, dtype, args);
}

bool is_more_extreme(Combine combine, DType dtype, Bits a, Bits b) {
  if (compare_bits(Op::kIsNan, dtype, a, a) != 0) return false;
  if (compare_bits(Op::kIsNan, dtype, b, b) != 0) return true;
  return compare_bits(combine == Combine::kMin ? Op::kLt : Op::kGt, dtype, b, a) != 0;
}

}  // namespace npugraph::loop
