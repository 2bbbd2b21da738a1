// SPDX-License-Identifier: Apache-2.0
// Random valid kernels with inputs, for which any order of sums gives the same result: floats are small integers, so
// that all arithmetic on them is exact. Outputs of functions (exp, division, ...) are stored and not used again; they
// have a tolerance. The same seed gives the same case everywhere.
#pragma once

#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "loop/builder.h"
#include "loop/evaluate.h"
#include "loop/op.h"

namespace npugraph::loop::testing {

struct RandomOptions {
  bool functions = true;        // outputs with a tolerance
  bool special_values = false;  // NaN and infinities among the inputs
  bool failures = false;        // some kernels fail by a check or a division
};

// An argument of the kernel with its contents.
struct RandomBuffer {
  DType dtype = DType::kF32;
  int64_t elements = 0;
  std::vector<char> bytes;
  int64_t ulps = 0;  // how far an output may be from that of the interpreter
};

struct RandomCase {
  Kernel kernel;
  std::vector<Scalar> scalars;
  std::vector<RandomBuffer> buffers;
};

// Runs the case on its own buffers by the interpreter.
inline std::string interpret(RandomCase& c) {
  std::vector<HostBuffer> buffers;
  for (RandomBuffer& buffer : c.buffers) buffers.push_back({buffer.bytes.data(), buffer.elements});
  return loop::interpret(c.kernel, buffers, c.scalars);
}

// Whether two elements count as equal. Zeros of both signs do, all NaNs do, and results of functions do within their
// tolerance.
inline bool is_same(DType dtype, Bits a, Bits b, int64_t ulps) {
  if (a == b) return true;
  if (!is_floating(dtype)) return false;
  const auto number = [dtype](Bits bits) {
    return std::bit_cast<double>(*evaluate(Op::kCast, {&dtype, 1}, {&bits, 1}, DType::kF64));
  };
  const double x = number(a);
  const double y = number(b);
  if (x == y || (std::isnan(x) && std::isnan(y))) return true;
  if (ulps == 0 || std::signbit(x) != std::signbit(y)) return false;
  return static_cast<uint64_t>(std::abs(static_cast<int64_t>(a - b))) <= static_cast<uint64_t>(ulps);
}

// Describes the first element of the buffers that differs; empty if none does.
inline std::string difference(const RandomCase& expected, const RandomCase& got) {
  for (size_t i = 0; i < expected.buffers.size(); ++i) {
    const RandomBuffer& want = expected.buffers[i];
    for (int64_t k = 0; k < want.elements; ++k) {
      const Bits a = load_bits(want.dtype, want.bytes.data(), k);
      const Bits b = load_bits(want.dtype, got.buffers[i].bytes.data(), k);
      if (is_same(want.dtype, a, b, want.ulps)) continue;
      return cat(expected.kernel.buffers[i].name, "[", k, "] of ", name_of(want.dtype), " has the bits 0x", std::hex, b,
                 ", not 0x", a);
    }
  }
  return "";
}

class RandomKernel {
 public:
  RandomKernel(uint32_t seed, const RandomOptions& options)
      : random_(seed), options_(options), b_(cat("random_", seed)) {}

  RandomCase make() {
    constexpr int64_t kColumns[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 65, 100};
    rows_ = 1 + below(5);
    columns_ = kColumns[below(std::size(kColumns))];
    m_ = b_.scalar("m");
    n_ = b_.scalar("n");
    const Expr f = b_.scalar("f", ScalarKind::kFloat);
    case_.scalars = {Scalar::of_int(rows_), Scalar::of_int(columns_),
                     Scalar::of_float(static_cast<double>(below(9) - 4))};
    add_arguments();
    if (chance(2)) local_ = b_.local("t", DType::kF32, n_ + below(3));
    if (chance(4)) {
      b_.serial_for(m_, [&](const Expr& i) { add_row(i, f); });
    } else {
      b_.parallel_for(m_, 1 + below(3), [&](const Expr& i) { add_row(i, f); });
    }
    case_.kernel = b_.finish();
    return std::move(case_);
  }

 private:
  // A value and a bound on it: floats are integers up to `bound` (or NaN, infinite). Integers may have any value.
  struct Known {
    Value value;
    double bound = 0;
  };
  struct Input {
    BufferId id;
    DType dtype;
    double bound;
  };
  struct Output {
    BufferId id;
    DType dtype;
    size_t buffer;  // index in the buffers of the case
  };

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint32_t>(n)); }
  bool chance(int64_t one_in) { return below(one_in) == 0; }
  template <typename T>
  const T& pick(const std::vector<T>& items) {
    return items[below(static_cast<int64_t>(items.size()))];
  }

  // Integers up to this are exact in sums and products of the type.
  static double limit(DType dtype) { return dtype == DType::kF32 ? 0x1p22 : dtype == DType::kF64 ? 0x1p50 : 0; }

  static double bound_of(DType dtype) {
    if (is_floating(dtype)) return 8;
    return dtype == DType::kBool ? 1 : std::ldexp(1.0, static_cast<int>(size_of(dtype)) * 8);
  }

  Bits random_element(DType dtype) {
    if (dtype == DType::kBool) return static_cast<Bits>(below(2));
    if (is_floating(dtype)) {
      if (options_.special_values && chance(20)) {
        constexpr double kInfinity = std::numeric_limits<double>::infinity();
        const double special[] = {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity};
        return constant_bits(dtype, Scalar::of_float(special[below(3)]));
      }
      return constant_bits(dtype, Scalar::of_float(static_cast<double>(below(17) - 8)));
    }
    const int64_t number = chance(3) ? static_cast<int64_t>(random_()) - 0x7fffffff : below(40) - 20;
    const DType wide = DType::kI64;
    const Bits bits = constant_bits(wide, Scalar::of_int(number));
    return *evaluate(Op::kCast, {&wide, 1}, {&bits, 1}, dtype);
  }

  size_t add_buffer(DType dtype, int64_t elements, bool filled) {
    RandomBuffer buffer{dtype, elements, std::vector<char>(std::max<int64_t>(elements, 1) * size_of(dtype)), 0};
    for (int64_t i = 0; filled && i < elements; ++i) store_bits(dtype, buffer.bytes.data(), i, random_element(dtype));
    case_.buffers.push_back(std::move(buffer));
    return case_.buffers.size() - 1;
  }

  void add_arguments() {
    const std::vector<DType> types = {DType::kBool, DType::kU8,       DType::kI8,    DType::kI16, DType::kI32,
                                      DType::kI64,  DType::kF16,      DType::kBF16,  DType::kF32, DType::kF32,
                                      DType::kF32,  DType::kF64,      DType::kU16,   DType::kU32, DType::kU64,
                                      DType::kBF16, DType::kF8E4M3FN, DType::kF8E5M2};
    const int64_t inputs = 2 + below(3);
    for (int64_t i = 0; i < inputs; ++i) {
      const DType dtype = i == 0 ? DType::kF32 : pick(types);
      inputs_.push_back({b_.in(cat("x", i), dtype), dtype, bound_of(dtype)});
      add_buffer(dtype, 2 * rows_ * columns_ + 2, true);
    }
    at_type_ = chance(2) ? DType::kI32 : DType::kI64;
    at_ = b_.in("at", at_type_);
    fill_places(add_buffer(at_type_, columns_, false));
    const int64_t outputs = 2 + below(3);
    for (int64_t i = 0; i < outputs; ++i) {
      const DType dtype = i == 0 ? DType::kF32 : pick(types);
      const BufferId id = b_.out(cat("y", i), dtype);
      outputs_.push_back({id, dtype, add_buffer(dtype, rows_ * columns_, false)});
    }
    in_place_ = b_.inout("z", DType::kF32);
    add_buffer(DType::kF32, rows_ * columns_, true);
    for (const DType dtype : {DType::kF32, DType::kI64, DType::kI32, DType::kBool}) {
      const BufferId id = b_.out(cat("r", name_of(dtype)), dtype);
      row_outputs_.push_back({id, dtype, add_buffer(dtype, 4 * rows_, false)});
    }
  }

  // Fills the indices of gathers with numbers in [0, n). Sometimes one of them is -1; it is always the same one, so
  // that all failures agree.
  void fill_places(size_t buffer) {
    const bool outside = options_.failures && chance(8);
    for (int64_t i = 0; i < columns_; ++i) {
      const int64_t place = outside && i == columns_ / 2 ? -1 : below(columns_);
      const Bits bits = constant_bits(at_type_, Scalar::of_int(place));
      store_bits(at_type_, case_.buffers[buffer].bytes.data(), i, bits);
    }
  }

  void add_row(const Expr& i, const Expr& f) {
    row_ = i;
    std::vector<Known> outer;
    outer.push_back({cast(b_.read(f), DType::kF32), 4});
    const int64_t loops = 1 + below(3);
    for (int64_t k = 0; k < loops; ++k) add_columns(outer);
    for (const Known& known : outer) store_row(known);
  }

  // Adds a loop over columns. The values that it reduces are appended to `outer`.
  void add_columns(std::vector<Known>& outer) {
    std::vector<Known> reduced;
    const For::Kind kind = chance(4) ? For::Kind::kSerial : For::Kind::kVector;
    const Expr j = b_.begin_for(kind, n_);
    values_ = outer;
    const int64_t loads = 1 + below(3);
    for (int64_t k = 0; k < loads; ++k) values_.push_back(load(j));
    if (chance(4)) values_.push_back(gather(j));
    if (chance(6)) values_.push_back({b_.index(j * 3 + row_), 0x1p63});
    if (chance(4)) add_inner_loop(j);
    const int64_t ops = 2 + below(10);
    for (int64_t k = 0; k < ops; ++k) add_op();
    if (local_readable_ && chance(2)) values_.push_back({b_.load(*local_, n_ - 1 - j), local_bound_});
    if (chance(3)) add_scan();
    store_columns(j);
    if (chance(2)) add_reduction(reduced);
    if (chance(3)) add_reduction(reduced);
    b_.end_for();
    if (local_ && local_stored_) local_readable_ = true;
    outer.insert(outer.end(), reduced.begin(), reduced.end());
  }

  Expr random_index(const Expr& j) {
    const Expr flat = row_ * n_ + j;
    switch (below(8)) {
      case 0: return j;
      case 1: return row_;
      case 2: return j * m_ + row_;
      case 3: return flat * 2 + 1;
      case 4: return row_ * n_ + n_ - 1 - j;
      case 5: return Expr::make(ExprOp::kFloorDiv, {flat, 2 + below(3)});
      case 6: return Expr::make(ExprOp::kMod, {flat, Expr::make(ExprOp::kMax, {n_, 1})}) + row_;
      default: return flat;
    }
  }

  Known load(const Expr& j) {
    const Input input = pick(inputs_);
    const Expr index = random_index(j);
    if (!chance(4)) return {b_.load(input.id, index), input.bound};
    // Masked elements may be outside of the buffer.
    const Value place = b_.index(j + 3);
    const Value otherwise = b_.constant(input.dtype, static_cast<double>(below(2)));
    return {b_.load(input.id, row_ * n_ + j + 3, place < b_.index(n_), otherwise), input.bound};
  }

  Known gather(const Expr& j) {
    const Input input = pick(inputs_);
    const Value place = b_.load(at_, j);
    const Value inside = place >= 0;
    if (options_.failures) {
      b_.check(inside, "index % is out of range", place);
      return {b_.load(input.id, row_ * n_ + as_index(place)), input.bound};
    }
    return {b_.load(input.id, as_index(place), inside, b_.constant(input.dtype, 1)), input.bound};
  }

  // Adds an inner loop to the loop over columns. It reduces something.
  void add_inner_loop(const Expr& j) {
    const Input input = inputs_[0];
    const int64_t extent = 1 + below(3);
    const Expr u = b_.begin_for(chance(2) ? For::Kind::kUnrolled : For::Kind::kSerial, extent);
    const Value x = b_.load(input.id, Expr::make(ExprOp::kMin, {row_ * n_ + j + u, m_ * n_}));
    const Value y = x * cast(b_.index(u), DType::kF32);
    const Value sum = b_.sum(y);
    b_.end_for();
    values_.push_back({sum, input.bound * 9});
  }

  void add(Value value, double bound) { values_.push_back({value, bound}); }

  // An existing value of this type, or another value cast to it.
  Known value_of(DType dtype) {
    for (int k = 0; k < 4; ++k) {
      const Known& known = pick(values_);
      if (known.value.dtype() == dtype) return known;
    }
    return cast_known(pick(values_), dtype);
  }

  static bool is_safe_cast(const Known& known, DType to) {
    const DType from = known.value.dtype();
    if (to == DType::kF16) return known.bound <= 60000;
    if (to == DType::kF8E4M3FN) return known.bound <= 400;
    if (to == DType::kF8E5M2) return known.bound <= 50000;
    // The cast of a float that does not fit the integer cannot be compared, so cast_known() replaces such floats first.
    return !is_floating(from) || is_floating(to) || to == DType::kBool;
  }

  Known cast_known(Known known, DType to) {
    const DType from = known.value.dtype();
    if (from == to) return known;
    if (!is_safe_cast(known, to)) {
      if (is_floating(from) && !is_compute_float(from)) known.value = cast(known.value, DType::kF32);
      if (!is_floating(from)) return cast_known({cast(cast(known.value, DType::kI8), DType::kF32), 128}, to);
      const DType wide = known.value.dtype();
      // A NaN fails both comparisons.
      const Value zero = b_.constant(wide, 0);
      const Value fits = (known.value >= -100) & (known.value <= 100);
      known = {select(fits, known.value, zero), 100};
    }
    const double rounding = is_floating(to) ? 1.1 : 1;
    return {cast(known.value, to), is_floating(to) ? known.bound * rounding : bound_of(to)};
  }

  void add_op() {
    switch (below(9)) {
      case 0: return add_comparison();
      case 1:
        return add(cast_known(pick(values_), pick(std::vector{DType::kF32, DType::kI32, DType::kBF16, DType::kI64,
                                                              DType::kF64, DType::kU8, DType::kF16, DType::kBool})));
      case 2: return add_select();
      case 3: return add_integer_op();
      case 4: return add_bits_op();
      case 5: return add_unary();
      default: return add_float_op(chance(6) ? DType::kF64 : DType::kF32);
    }
  }
  void add(const Known& known) { values_.push_back(known); }

  void add_comparison() {
    constexpr Op kOps[] = {Op::kEq, Op::kNe, Op::kLt, Op::kLe, Op::kGt, Op::kGe};
    const DType dtype = chance(2) ? DType::kF32 : DType::kI32;
    const Known a = value_of(dtype);
    if (chance(5) && dtype == DType::kF32) return add(unary(Op::kIsNan, a.value), 1);
    add(binary(kOps[below(6)], a.value, value_of(dtype).value), 1);
  }

  void add_select() {
    const Value condition = value_of(DType::kBool).value;
    const Known a = pick(values_);
    const Known b = value_of(a.value.dtype());
    add(select(condition, a.value, b.value), std::max(a.bound, b.bound));
  }

  void add_integer_op() {
    const DType dtype = pick(std::vector{DType::kI32, DType::kI64, DType::kU8, DType::kI8, DType::kI16, DType::kU32});
    constexpr Op kOps[] = {Op::kAdd, Op::kSub, Op::kMul, Op::kMin, Op::kMax};
    constexpr Op kDivisions[] = {Op::kFmod, Op::kFloorMod, Op::kTruncDiv, Op::kFloorDiv};
    const Value a = value_of(dtype).value;
    Value b = value_of(dtype).value;
    if (!chance(3)) return add(binary(kOps[below(5)], a, b), bound_of(dtype));
    if (!options_.failures || !chance(4)) b = b | b_.constant(dtype, 1);
    add(binary(kDivisions[below(4)], a, b), bound_of(dtype));
  }

  void add_bits_op() {
    const DType dtype = pick(std::vector{DType::kBool, DType::kI32, DType::kU8, DType::kI64, DType::kI16});
    constexpr Op kOps[] = {Op::kBitAnd, Op::kBitOr, Op::kBitXor, Op::kShiftLeft, Op::kShiftRight};
    const Value a = value_of(dtype).value;
    if (chance(4)) return add(unary(Op::kBitNot, a), bound_of(dtype));
    add(binary(kOps[below(dtype == DType::kBool ? 3 : 5)], a, value_of(dtype).value), bound_of(dtype));
  }

  void add_unary() {
    constexpr Op kOps[] = {Op::kNeg, Op::kAbs, Op::kSign, Op::kFloor, Op::kCeil, Op::kTrunc, Op::kRound};
    const DType dtype = pick(std::vector{DType::kF32, DType::kF64, DType::kI32, DType::kI8});
    const Known a = value_of(dtype);
    add(unary(kOps[below(is_floating(dtype) ? 7 : 3)], a.value), a.bound);
  }

  void add_float_op(DType dtype) {
    const Known a = value_of(dtype);
    const Known b = value_of(dtype);
    const double sum = a.bound + b.bound;
    const double product = a.bound * b.bound;
    switch (below(6)) {
      case 0: return add(min(a.value, b.value), std::max(a.bound, b.bound));
      case 1: return add(max(a.value, b.value), std::max(a.bound, b.bound));
      case 2:
        if (product <= limit(dtype)) add(a.value * b.value, product);
        return;
      case 3:
        if (sum + product <= limit(dtype)) add(fma(a.value, b.value, a.value), sum + product);
        return;
      case 4:
        if (sum <= limit(dtype)) add(a.value - b.value, sum);
        return;
      default:
        if (sum <= limit(dtype)) add(a.value + b.value, sum);
    }
  }

  void add_reduction(std::vector<Known>& reduced) {
    const bool is_float = chance(2);
    const DType dtype = is_float ? DType::kF32 : pick(std::vector{DType::kI32, DType::kI64, DType::kBool, DType::kI8});
    // Only values that the loop body defines can be reduced, and `a` may come from outside.
    const Known a = value_of(dtype);
    const Value own =
        dtype == DType::kBool ? a.value ^ b_.constant(dtype, below(2) != 0 ? 1.0 : 0.0) : unary(Op::kNeg, a.value);
    const bool extreme = dtype != DType::kBool && chance(3);
    if (extreme) {
      const Builder::Extreme result = b_.reduce_with_index(chance(2) ? Combine::kMin : Combine::kMax, own);
      reduced.push_back({result.index, 0x1p63});
      reduced.push_back({result.value, 0x1p63});
      return;
    }
    reduced.push_back({b_.reduce(combination(dtype, a.bound), own), std::max(a.bound * 128, 1.0)});
  }

  // A combination that keeps floats exact over all columns.
  Combine combination(DType dtype, double bound) {
    if (dtype == DType::kBool) return chance(2) ? Combine::kAnd : Combine::kOr;
    if (is_floating(dtype)) {
      if (bound * 128 <= limit(dtype) && chance(2)) return Combine::kSum;
      return chance(2) ? Combine::kMin : Combine::kMax;
    }
    return static_cast<Combine>(below(6));
  }

  void add_scan() {
    const DType dtype = pick(std::vector{DType::kF32, DType::kI32, DType::kI64});
    const Known a = value_of(dtype);
    const Value own = unary(Op::kNeg, a.value);
    const Combine combine = combination(dtype, a.bound);
    add(b_.scan(combine, own), a.bound * 128);
  }

  void store_columns(const Expr& j) {
    if (!outputs_.empty()) {
      const Output output = outputs_.back();
      outputs_.pop_back();
      const bool function = options_.functions && output.dtype == DType::kF32 && !chance(3);
      if (function) case_.buffers[output.buffer].ulps = 4;
      const Value value = function ? random_function() : value_of(output.dtype).value;
      const Value mask = chance(4) ? value_of(DType::kBool).value : Value();
      const Expr index = chance(4) ? j * m_ + row_ : row_ * n_ + j;
      b_.store(output.id, index, value, mask, mask.id == kNone && chance(4));
    }
    if (chance(4) && !in_place_done_) {
      in_place_done_ = true;
      const Known z = {b_.load(in_place_, row_ * n_ + j), 8};
      b_.store(in_place_, row_ * n_ + j, z.value + z.value);
    }
    if (local_ && !local_stored_ && chance(2)) {
      const Known known = value_of(DType::kF32);
      b_.store(*local_, j, known.value);
      local_stored_ = true;
      local_bound_ = known.bound;
    }
  }

  // Applies a random function to an argument for which the sign of zero does not matter.
  Value random_function() {
    constexpr Op kAnywhere[] = {Op::kExp,   Op::kExp2, Op::kExpm1, Op::kLog,  Op::kLog2, Op::kLog10,
                                Op::kLog1p, Op::kSin,  Op::kCos,   Op::kTan,  Op::kAtan, Op::kSinh,
                                Op::kCosh,  Op::kTanh, Op::kErf,   Op::kErfc, Op::kSqrt, Op::kSigmoid};
    const Value x = value_of(DType::kF32).value;
    const Value small = min(max(x, b_.constant(DType::kF32, -8)), b_.constant(DType::kF32, 8));
    const Value positive = unary(Op::kAbs, small) + 1.0;
    switch (below(12)) {
      case 0: return unary(Op::kReciprocal, positive);
      case 1: return unary(Op::kRsqrt, positive);
      case 2: return small / positive;
      case 3: return binary(Op::kPow, positive, small);
      case 4: return unary(chance(2) ? Op::kAsin : Op::kAcos, small / 16.0);
      default: return unary(kAnywhere[below(std::size(kAnywhere))], small);
    }
  }

  // Each row has four places for values of each type.
  void store_row(const Known& known) {
    for (size_t i = 0; i < row_outputs_.size(); ++i) {
      if (row_outputs_[i].dtype != known.value.dtype() || row_places_[i] == 4) continue;
      b_.store(row_outputs_[i].id, row_ * 4 + row_places_[i]++, known.value);
    }
  }

  std::mt19937 random_;
  RandomOptions options_;
  Builder b_;
  RandomCase case_;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  Expr m_, n_, row_;
  DType at_type_ = DType::kI64;
  BufferId at_{}, in_place_{};
  std::vector<Input> inputs_;
  std::vector<Output> outputs_, row_outputs_;
  int64_t row_places_[4] = {};  // number of used places, by row output
  std::vector<Known> values_;
  std::optional<BufferId> local_;
  bool local_stored_ = false;
  bool local_readable_ = false;
  double local_bound_ = 0;
  bool in_place_done_ = false;
};

inline RandomCase random_case(uint32_t seed, const RandomOptions& options = {}) {
  return RandomKernel(seed, options).make();
}

}  // namespace npugraph::loop::testing
