// SPDX-License-Identifier: Apache-2.0
// The interpreter against values computed by hand.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"
#include "loop/evaluate.h"
#include "loop/sample_kernels.h"

namespace npugraph::loop {
namespace {

using testing::host;
using testing::run;

std::vector<Scalar> ints(std::initializer_list<int64_t> values) {
  std::vector<Scalar> scalars;
  for (const int64_t value : values) scalars.push_back(Scalar::of_int(value));
  return scalars;
}

// Runs a kernel and returns the message of the InternalError that it throws.
std::string defect(std::string_view text, std::vector<HostBuffer> buffers, std::vector<Scalar> scalars = {}) {
  try {
    run(text, std::move(buffers), std::move(scalars));
    return "no defect";
  } catch (const InternalError& error) {
    return error.what();
  }
}

void expect_defect(const std::string& message, std::string_view part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(LoopInterpret, Softmax) {
  constexpr std::string_view kSoftmax = R"(npugraph.loop 1 @softmax {
  scalar m : int scalar n : int
  in x : f32
  out y : f32
  local t : f32[n]
  parallel for i < m {
    vector for j < n { %0 : f32 = load x[i*n + j] } reduce(%1 : f32 = max %0)
    vector for k < n {
      %2 : f32 = load x[i*n + k]
      %3 : f32 = sub %2, %1
      %4 : f32 = exp %3
      store t[k] = %4
    } reduce(%5 : f32 = sum %4)
    vector for l < n {
      %6 : f32 = load t[l]
      %7 : f32 = div %6, %5
      store y[i*n + l] = %7
    }
  }
})";
  std::vector<float> x = {0, 0, std::log(2.0f), 5, 5, 5};
  std::vector<float> y(6);
  EXPECT_EQ(run(kSoftmax, {host(x), host(y)}, ints({2, 3})), "");
  const float expected[] = {0.25f, 0.25f, 0.5f, 1 / 3.0f, 1 / 3.0f, 1 / 3.0f};
  for (size_t i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(y[i], expected[i]);
}

TEST(LoopInterpret, ScansIncludeTheirOwnIterationAndChain) {
  constexpr std::string_view kScan = R"(npugraph.loop 1 @k {
  scalar n : int in x : i32 out sums : i32 out best : i32
  vector for i < n scan(%1 : i32 = sum %0, %2 : i32 = max %1) {
    %0 : i32 = load x[i]
    store sums[i] = %1
    store best[i] = %2
  }
})";
  std::vector<int32_t> x = {3, -5, 4, 1};
  std::vector<int32_t> sums(4), best(4);
  EXPECT_EQ(run(kScan, {host(x), host(sums), host(best)}, ints({4})), "");
  EXPECT_EQ(sums, (std::vector<int32_t>{3, -2, 2, 3}));
  EXPECT_EQ(best, (std::vector<int32_t>{3, 3, 3, 3}));
}

TEST(LoopInterpret, ReductionsOfEachKind) {
  constexpr std::string_view kReduce = R"(npugraph.loop 1 @k {
  scalar n : int in x : i8 out y : i8
  for i < n { %0 : i8 = load x[i] }
    reduce(%1 : i8 = sum %0, %2 : i8 = product %0, %3 : i8 = min %0, %4 : i8 = max %0, %5 : i8 = and %0, %6 : i8 = or %0)
  store y[0] = %1 store y[1] = %2 store y[2] = %3 store y[3] = %4 store y[4] = %5 store y[5] = %6
})";
  std::vector<int8_t> x = {100, 50, -3};
  std::vector<int8_t> y(6);
  EXPECT_EQ(run(kReduce, {host(x), host(y)}, ints({3})), "");
  EXPECT_EQ(y, (std::vector<int8_t>{-109, static_cast<int8_t>(-15000), -3, 100, 100 & 50 & -3, 100 | 50 | -3}));
  EXPECT_EQ(run(kReduce, {host(x), host(y)}, ints({0})), "");
  EXPECT_EQ(y, (std::vector<int8_t>{0, 1, 127, -128, -1, 0}));
}

TEST(LoopInterpret, ExtremesKeepTheFirstIterationAndNaN) {
  constexpr std::string_view kArg = R"(npugraph.loop 1 @k {
  scalar n : int in x : f32 out at : i64 out best : f32
  vector for i < n { %0 : f32 = load x[i] } reduce(%1 : f32 at %2 = max %0, %3 : f32 at %4 = min %0)
  store at[0] = %2 store at[1] = %4 store best[0] = %1 store best[1] = %3
})";
  const auto extremes = [&](std::vector<float> x) {
    std::vector<int64_t> at(2);
    std::vector<float> best(2);
    EXPECT_EQ(run(kArg, {host(x), host(at), host(best)}, ints({static_cast<int64_t>(x.size())})), "");
    EXPECT_EQ(std::isnan(best[0]), std::isnan(best[1]));
    return at;
  };
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(extremes({1, 7, -2, 7, -2}), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(extremes({1, kNaN, 9, kNaN}), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(extremes({-kInfinity, -kInfinity}), (std::vector<int64_t>{0, 0}));
}

TEST(LoopInterpret, GathersChecksAndMasks) {
  constexpr std::string_view kGather = R"(npugraph.loop 1 @k {
  scalar n : int in x : f32 in at : i32 inout y : f32
  for i < n {
    %0 : i32 = load at[i]
    %1 : i32 = constant 3
    %2 : bool = lt %0, %1
    check %2, "index % is not below {n + 1}", %0
    %3 : i32 = constant 0
    %4 : bool = ge %0, %3
    %5 : f32 = constant -1.0
    %6 : f32 = load x[v0] where %4 else %5
    store y[i] = %6
    store y[10*v0 + 3] = %6 where %2
  }
})";
  std::vector<float> x = {10, 20, 30};
  std::vector<float> y(4);
  std::vector<int32_t> at = {2, 0, 7};
  EXPECT_EQ(defect(kGather, {host(x), host(at), host(y)}, ints({2})).find("a store of y[23]") != std::string::npos,
            true);
  at = {0, -100, 0};
  expect_defect(defect(kGather, {host(x), host(at), host(y)}, ints({2})), "a store of y[-997] in k, which has 4");
  at = {0, 3};
  EXPECT_EQ(run(kGather, {host(x), host(at), host(y)}, ints({2})), "index 3 is not below 3");
  EXPECT_EQ(y[0], 10);
  EXPECT_EQ(y[3], 10);
}

TEST(LoopInterpret, ScalarsOfEveryKind) {
  constexpr std::string_view kScalars = R"(npugraph.loop 1 @k {
  scalar n : int scalar f : float scalar b : bool out y : f64
  %0 : f64 = scalar n %1 : f64 = scalar f %2 : f64 = scalar b
  store y[where(b, 2, 1)] = %0 store y[1] = %1 store y[0] = %2
})";
  std::vector<double> y(3);
  EXPECT_EQ(run(kScalars, {host(y)}, {Scalar::of_int(-3), Scalar::of_float(0.5), Scalar::of_bool(true)}), "");
  EXPECT_EQ(y, (std::vector<double>{1, 0.5, -3}));
}

TEST(LoopInterpret, IntegerDivisionByZeroFailsTheKernel) {
  for (const std::string_view op : {"fmod", "floormod", "truncdiv", "floordiv"}) {
    const std::string text =
        cat("npugraph.loop 1 @k { in x : i32 out y : i32 for i < 2 { %0 : i32 = load x[i] %1 : i32 = ",
            "constant 7 %2 : i32 = ", op, " %1, %0 store y[i] = %2 } }");
    std::vector<int32_t> x = {2, 0};
    std::vector<int32_t> y(2);
    EXPECT_EQ(run(text, {host(x), host(y)}), "ZeroDivisionError") << op;
    EXPECT_NE(y[0], 0);
  }
}

TEST(LoopInterpret, PromisesOfKernelsAreChecked) {
  const auto defect_of = [](std::string_view body) {
    std::vector<float> x(4), y(4);
    return defect(cat("npugraph.loop 1 @k { scalar n : int in x : f32 out y : f32 local t : f32[n] ", body, " }"),
                  {host(x), host(y)}, ints({4}));
  };
  constexpr std::string_view kOne = "%9 : f32 = constant 1.0 ";
  const auto with_one = [&](std::string_view body) { return defect_of(cat(kOne, body)); };
  expect_defect(defect_of("%0 : f32 = load x[n]"), "a load of x[4] in k, which has 4 elements");
  expect_defect(defect_of("%0 : f32 = load x[-1]"), "a load of x[-1]");
  expect_defect(defect_of("%0 : f32 = load y[0]"), "a load of y[0] in k, which was not written");
  expect_defect(with_one("store t[1] = %9 %0 : f32 = load t[0]"), "a load of t[0] in k, which was not written");
  expect_defect(with_one("store t[1] = %9 parallel for i < 2 { %0 : f32 = load t[1] }"), "t[1] in k, which was not");
  expect_defect(defect_of("for i < n - 5 { }"), "the loop i of k has the extent -1");
  expect_defect(defect_of("%0 : f32 = load x[n*4611686018427387904]"), "overflow");
  expect_defect(with_one("parallel for i < 2 { store y[0] = %9 }"), "iterations of loop i touch the same y[0]");
  expect_defect(
      with_one("store y[0] = %9 store y[1] = %9 vector for i < 2 { %0 : f32 = load y[i] store y[1 - i] = %9 }"),
      "iterations of loop i touch the same y[1]");
  EXPECT_EQ(with_one("vector for i < 2 { store y[i] = %9 %0 : f32 = load y[i] store y[3] = %9 }"), "no defect");
  EXPECT_EQ(with_one("for i < 2 { store y[0] = %9 } %0 : f32 = load y[0]"), "no defect");
}

}  // namespace
}  // namespace npugraph::loop
