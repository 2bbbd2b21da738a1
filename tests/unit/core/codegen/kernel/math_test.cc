// SPDX-License-Identifier: Apache-2.0
#include "codegen/math/math.h"

#include <random>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <gtest/gtest.h>

#include "codegen/kernel/math_case.h"

namespace npugraph::codegen {
namespace {

using loop::Op;
using target::Target;

template <typename Float>
using Limits = std::numeric_limits<Float>;

template <typename Float>
std::vector<Float> special_values() {
  const Float tiny = Limits<Float>::min();
  std::vector<Float> positive = {0,
                                 Limits<Float>::denorm_min(),
                                 tiny / 2,
                                 std::nextafter(tiny, Float(0)),
                                 tiny,
                                 Limits<Float>::epsilon(),
                                 Float(0.5),
                                 Float(0.8),
                                 1,
                                 2,
                                 3,
                                 4,
                                 10,
                                 Limits<Float>::max(),
                                 Limits<Float>::infinity(),
                                 Limits<Float>::quiet_NaN()};
  std::vector<Float> all;
  for (const Float value : positive) all.insert(all.end(), {value, -value});
  return all;
}

// Adds multiples of `step` and their neighbours: range reductions change their step there.
template <typename Float>
void add_multiples(std::vector<Float>& values, long double step, int count) {
  for (int k = -count; k <= count; ++k) {
    const auto at = static_cast<Float>(k * step);
    for (const Float end : {-Limits<Float>::infinity(), Limits<Float>::infinity()}) {
      Float value = at;
      for (int i = 0; i < 3; ++i) values.push_back(value = std::nextafter(value, end));
    }
    values.push_back(at);
  }
}

// Adds numbers of every exponent, with random fractions and both signs.
template <typename Float>
void add_exponents(std::vector<Float>& values, int per_exponent) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<Float> fraction(1, 2);
  const int lowest = Limits<Float>::min_exponent - Limits<Float>::digits;
  for (int exponent = lowest; exponent < Limits<Float>::max_exponent; ++exponent) {
    for (int i = 0; i < per_exponent; ++i) {
      const Float value = std::ldexp(fraction(random), exponent);
      values.insert(values.end(), {value, -value});
    }
  }
}

template <typename Float>
std::vector<Float> sample() {
  constexpr bool is_f32 = std::is_same_v<Float, float>;
  std::vector<Float> values = special_values<Float>();
  add_multiples(values, 0.125L, 200);
  add_multiples(values, std::log(2.0L) / 2, 320);
  add_multiples(values, std::acos(-1.0L) / 4, is_f32 ? 4000 : 100);
  add_multiples(values, 1e5L, 1);
  add_exponents(values, is_f32 ? 200 : 10);
  // Numbers near 1, where logarithms are small, and numbers in the range in which most functions vary.
  std::mt19937_64 random(2);
  for (int i = 0; i < 10000; ++i) {
    values.push_back(1 + std::uniform_real_distribution<Float>(-0.01, 0.01)(random));
    values.push_back(std::uniform_real_distribution<Float>(-12, 12)(random));
  }
  return values;
}

template <typename Float>
struct Pairs {
  std::vector<Float> x, y;
  void add(Float a, Float b) {
    x.push_back(a);
    y.push_back(b);
  }
};

template <typename Float>
Pairs<Float> sample_pairs() {
  Pairs<Float> pairs;
  std::vector<Float> special = special_values<Float>();
  special.insert(special.end(), {7, -7, Float(2.5), Float(-2.5), 16777216, -16777215, Float(1e10), Float(-0.3)});
  for (const Float a : special) {
    for (const Float b : special) pairs.add(a, b);
  }
  std::vector<Float> any;
  add_exponents(any, std::is_same_v<Float, float> ? 40 : 5);
  std::mt19937_64 random(3);
  std::shuffle(any.begin(), any.end(), random);
  std::uniform_real_distribution<Float> moderate(-20, 20);
  for (size_t i = 0; i + 1 < any.size(); ++i) {
    pairs.add(any[i], any[i + 1]);
    pairs.add(any[i], moderate(random));
    pairs.add(moderate(random), std::round(moderate(random)));
    pairs.add(any[i], any[i] * moderate(random));
    pairs.add(std::fabs(any[i]), 1 / moderate(random));
  }
  return pairs;
}

// Returns the least error of `got` compared with the exact results for original and flushed denormals, in arguments and
// in the result.
template <typename Float>
double flushed_error(Op op, Float got, Float x, Float y) {
  const auto flushed = [](auto value) {
    return std::fabs(value) < Limits<Float>::min() ? std::copysign(decltype(value)(0), value) : value;
  };
  double least = Limits<double>::infinity();
  for (const Float a : {x, flushed(x)}) {
    for (const Float b : {y, flushed(y)}) {
      const auto exact = exact_value(op, a, b);
      least = std::min({least, ulp_error(got, exact), ulp_error(got, flushed(exact))});
    }
  }
  return least;
}

template <typename Float>
void expect_within_bound(const Target& target, Op op, const Pairs<Float>& in, const std::vector<Float>& got,
                         const std::vector<double>& errors) {
  const size_t at = std::max_element(errors.begin(), errors.end()) - errors.begin();
  EXPECT_LE(errors[at], 2) << loop::info_of(op).name << " f" << 8 * sizeof(Float) << " " << target.level << " of "
                           << std::hexfloat << in.x[at] << ", " << in.y[at] << " is " << got[at] << ", not "
                           << exact_value(op, in.x[at], in.y[at]);
}

template <typename Float>
Pairs<Float> arguments(Op op) {
  if (loop::info_of(op).arity == 2) return sample_pairs<Float>();
  const std::vector<Float> x = sample<Float>();
  return {x, x};
}

template <typename Float>
int native_lanes(const Target& target) {
  return target.vector_bytes() / static_cast<int>(sizeof(Float));
}

template <typename Float>
void expect_close(Op op) {
  const Pairs<Float> in = arguments<Float>(op);
  std::vector<Wider<Float>> exact(in.x.size());
  for (size_t i = 0; i < exact.size(); ++i) exact[i] = exact_value(op, in.x[i], in.y[i]);
  for (const Target& target : target::host_targets()) {
    const std::vector<Float> got = MathLoop<Float>(target, op, native_lanes<Float>(target))(in.x, in.y);
    std::vector<double> errors(got.size());
    for (size_t i = 0; i < got.size(); ++i) errors[i] = ulp_error(got[i], exact[i]);
    expect_within_bound(target, op, in, got, errors);
  }
}

TEST(Math, F32IsWithinTwoUnitsOfTheExactResult) {
  for (const Op op : math_ops()) expect_close<float>(op);
}

TEST(Math, F64IsWithinTwoUnitsOfTheExactResult) {
  for (const Op op : math_ops()) expect_close<double>(op);
}

template <typename Float>
void expect_same_bits(const Target& target, Op op) {
  const Pairs<Float> in = arguments<Float>(op);
  const int lanes = native_lanes<Float>(target);
  const std::vector<Float> native = MathLoop<Float>(target, op, lanes)(in.x, in.y);
  for (const int other : {1, lanes / 2, 2 * lanes}) {
    const std::vector<Float> got = MathLoop<Float>(target, op, other)(in.x, in.y);
    for (size_t i = 0; i < got.size(); ++i) {
      const bool same = got[i] == native[i] || (std::isnan(got[i]) && std::isnan(native[i]));
      ASSERT_TRUE(same) << loop::info_of(op).name << " " << target.level << " with " << other << " lanes of "
                        << std::hexfloat << in.x[i] << ", " << in.y[i] << " is " << got[i] << ", not " << native[i];
    }
  }
}

TEST(Math, ResultsDoNotDependOnTheNumberOfLanes) {
  for (const Target& target : target::host_targets()) {
    for (const Op op : math_ops()) {
      expect_same_bits<float>(target, op);
      expect_same_bits<double>(target, op);
    }
  }
}

#ifdef __x86_64__
// While this object lives, the processor takes denormals as zeros, in arguments and in results.
class FlushDenormals {
 public:
  FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040); }
  ~FlushDenormals() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
};

TEST(Math, DenormalsMayBeFlushed) {
  for (const Target& target : target::host_targets()) {
    for (const Op op : math_ops()) {
      const Pairs<float> in = arguments<float>(op);
      const MathLoop<float> loop(target, op, native_lanes<float>(target));
      std::vector<float> got;
      {
        const FlushDenormals flush;
        got = loop(in.x, in.y);
      }
      std::vector<double> errors(got.size());
      for (size_t i = 0; i < got.size(); ++i) {
        errors[i] = ulp_error(got[i], exact_value(op, in.x[i], in.y[i]));
        if (errors[i] > 2) errors[i] = flushed_error(op, got[i], in.x[i], in.y[i]);
      }
      expect_within_bound(target, op, in, got, errors);
    }
  }
}
#endif

}  // namespace
}  // namespace npugraph::codegen
