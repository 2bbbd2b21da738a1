// SPDX-License-Identifier: Apache-2.0
#include "loop/simplify.h"

#include <array>

#include <gtest/gtest.h>

#include "base/error.h"
#include "loop/algebra.h"
#include "loop/random_kernel.h"
#include "loop/sample_kernels.h"
#include "loop/text.h"

namespace npugraph::loop {

namespace {

constexpr std::string_view kHead =
    "npugraph.loop 1 @k {\n  scalar n : int\n  in x : f32\n  in h : bf16\n  in a : i32\n  out y : f32\n  out b : i32\n"
    "  local t : f32[n]\n";

// Simplifies a kernel with the buffers of kHead and this body. Returns the new body, one statement a line, without
// indentation.
std::string simplified(std::string_view body) {
  Kernel kernel = parse(cat(kHead, body, "\n}\n"), "test");
  simplify(kernel);
  EXPECT_EQ(verify(kernel), "");
  const std::string text = print(kernel);
  std::string out;
  const size_t head = text.find("  out b : i32\n") + 14;
  size_t position = text.substr(head).starts_with("  local") ? text.find('\n', head) + 1 : head;
  while (position < text.size() - 2) {
    const size_t end = text.find('\n', position);
    const size_t first = text.find_first_not_of(' ', position);
    out += cat(text.substr(first, end - first), "\n");
    position = end + 1;
  }
  return out;
}

constexpr std::string_view kX = "%0 : f32 = load x[0]\n";
constexpr std::string_view kA = "%0 : i32 = load a[0]\n";

// The simplified body of `statements` and a store of %9. The statements define %9 from %0, which is loaded first.
std::string of_float(std::string_view statements) { return simplified(cat(kX, statements, "\nstore y[0] = %9")); }
std::string of_integer(std::string_view statements) { return simplified(cat(kA, statements, "\nstore b[0] = %9")); }

const std::string kSameFloat = cat(kX, "store y[0] = %0\n");
const std::string kSameInteger = cat(kA, "store b[0] = %0\n");

TEST(LoopSimplify, FoldsConstants) {
  EXPECT_EQ(simplified("%0 : f32 = constant 2.0 %1 : f32 = mul %0, %0 %2 : f32 = sqrt %1 store y[0] = %2"),
            "%0 : f32 = constant 2.0\nstore y[0] = %0\n");
  EXPECT_EQ(simplified("%0 : i64 = index 7 %1 : i32 = cast %0 store b[0] = %1"),
            "%0 : i32 = constant 7\nstore b[0] = %0\n");
  EXPECT_EQ(simplified("%0 : i32 = constant 2147483647 %1 : i32 = add %0, %0 store b[0] = %1"),
            "%0 : i32 = constant -2\nstore b[0] = %0\n");
}

TEST(LoopSimplify, WhatDoesNothing) {
  for (const std::string_view statements :
       {"%1 : f32 = constant 1.0 %9 : f32 = mul %1, %0", "%1 : f32 = constant 1.0 %9 : f32 = div %0, %1",
        "%1 : f32 = constant -0.0 %9 : f32 = add %0, %1", "%1 : f32 = constant 0.0 %9 : f32 = sub %0, %1",
        "%1 : f32 = neg %0 %9 : f32 = neg %1", "%9 : f32 = cast %0", "%9 : f32 = max %0, %0",
        "%1 : f64 = cast %0 %9 : f32 = cast %1", "%1 : bool = constant true %9 : f32 = select %1, %0, %0"}) {
    EXPECT_EQ(of_float(statements), kSameFloat) << statements;
  }
  for (const std::string_view statements :
       {"%1 : i32 = constant 0 %9 : i32 = add %0, %1", "%1 : i32 = constant -1 %9 : i32 = bitand %0, %1",
        "%1 : i32 = constant 0 %9 : i32 = shl %0, %1", "%1 : i32 = constant 1 %9 : i32 = floordiv %0, %1",
        "%1 : i64 = cast %0 %9 : i32 = cast %1", "%1 : f64 = cast %0 %9 : i32 = cast %1",
        "%1 : i32 = bitnot %0 %9 : i32 = bitnot %1"}) {
    EXPECT_EQ(of_integer(statements), kSameInteger) << statements;
  }
}

TEST(LoopSimplify, RoundingsAndSignsStay) {
  for (const std::string_view statements : {
           "%1 : bf16 = cast %0\n%2 : f32 = cast %1\n",
           "%1 : f32 = constant 0.0\n%2 : f32 = add %0, %1\n",
           "%1 : f32 = constant 0.0\n%2 : f32 = mul %0, %1\n",
           "%1 : f32 = sub %0, %0\n%2 : f32 = abs %1\n",
           "%1 : i32 = cast %0\n%2 : f32 = cast %1\n",
           "%1 : f32 = constant 3.0\n%2 : f32 = div %0, %1\n",
           "%1 : f32 = constant -0.0\n%2 : f32 = sub %0, %1\n",
       }) {
    const std::string expected = cat(kX, statements, "store y[0] = %2\n");
    EXPECT_EQ(simplified(expected), expected);
  }
  for (const std::string_view statements : {
           "%1 : f32 = cast %0\n%2 : i32 = cast %1\n",
           "%1 : i16 = cast %0\n%2 : i32 = cast %1\n",
           "%1 : i32 = constant 0\n%2 : i32 = truncdiv %0, %1\n",
       }) {
    const std::string expected = cat(kA, statements, "store b[0] = %2\n");
    EXPECT_EQ(simplified(expected), expected);
  }
}

TEST(LoopSimplify, DivisionByAPowerOfTwoIsAProduct) {
  EXPECT_EQ(of_float("%1 : f32 = constant 8.0 %9 : f32 = div %0, %1"),
            "%0 : f32 = load x[0]\n%1 : f32 = constant 0.125\n%2 : f32 = mul %0, %1\nstore y[0] = %2\n");
}

TEST(LoopSimplify, DetoursOfCasts) {
  EXPECT_EQ(
      simplified("%0 : bf16 = load h[0] %1 : f32 = cast %0 %2 : f64 = cast %1 %3 : i32 = cast %2 store b[0] = %3"),
      "%0 : bf16 = load h[0]\n%1 : i32 = cast %0\nstore b[0] = %1\n");
}

TEST(LoopSimplify, IndexExpressions) {
  EXPECT_EQ(
      simplified("for i < 4 { for j < n { %0 : f32 = load x[floordiv(i*n + j, n)] store y[mod(i*n + j, n)] = %0 } }"),
      "for i < 4 {\nfor j < n {\n%0 : f32 = load x[i]\nstore y[j] = %0\n}\n}\n");
  EXPECT_EQ(simplified("for i < n { %0 : i64 = index 2*i %1 : f32 = load x[v0 + 1] store y[v0] = %1 }"),
            "for i < n {\n%0 : f32 = load x[2*i + 1]\nstore y[2*i] = %0\n}\n");
}

TEST(LoopSimplify, EqualValuesOfABlock) {
  EXPECT_EQ(simplified(R"(
    for i < n {
      %0 : f32 = load x[i]
      %1 : f32 = exp %0
      %2 : f32 = load x[i]
      %3 : f32 = exp %2
      %4 : f32 = add %3, %1
      store y[i] = %4
    })"),
            "for i < n {\n%0 : f32 = load x[i]\n%1 : f32 = exp %0\n%2 : f32 = add %1, %1\nstore y[i] = %2\n}\n");
}

TEST(LoopSimplify, LoadsAreNotMergedOverStores) {
  for (const std::string_view store : {"store t[1] = %0\n", "for i < 2 {\nstore t[i] = %0\n}\n"}) {
    const std::string text = cat("%0 : f32 = load x[0]\nstore t[0] = %0\nstore t[1] = %0\n%1 : f32 = load t[0]\n",
                                 store, "%2 : f32 = load t[0]\n%3 : f32 = sub %1, %2\nstore y[0] = %3\n");
    EXPECT_EQ(simplified(text), text);
  }
}

TEST(LoopSimplify, ValuesLeaveLoopsOfWhichTheyDoNotDepend) {
  EXPECT_EQ(simplified(R"(
    parallel for i < n {
      for j < n {
        %0 : f32 = constant 2.0
        %1 : f32 = load x[i]
        for k < n {
          %2 : f32 = exp %1
          %3 : f32 = mul %2, %0
          store y[n*i + k] = %3
        }
      }
    })"),
            R"(parallel for i < n {
%0 : f32 = constant 2.0
for j < n {
%1 : f32 = load x[i]
%2 : f32 = exp %1
%3 : f32 = mul %0, %2
for k < n {
store y[i*n + k] = %3
}
}
}
)");
}

TEST(LoopSimplify, WhatMustStayInItsLoop) {
  for (const std::string_view text : {
           "for i < n {\n%0 : f32 = constant 2.0\n} reduce(%1 : f32 = sum %0)\nstore y[0] = %1\n",
           "%0 : i32 = load a[0]\nfor i < n {\n%1 : i32 = truncdiv %0, %0\nstore b[i] = %1\n}\n",
           "for i < n {\n%0 : f32 = load x[0]\nstore y[i] = %0\n}\n",
       }) {
    EXPECT_EQ(simplified(text), text);
  }
}

TEST(LoopSimplify, ReductionsKeepAValueOfTheirBody) {
  EXPECT_EQ(simplified(R"(
    %0 : f32 = load x[0]
    for i < n {
      %1 : f32 = load x[i]
      %2 : f32 = neg %1
      %3 : f32 = neg %2
      %4 : f32 = constant 1.0
      %5 : f32 = mul %0, %4
    } reduce(%6 : f32 = sum %3, %7 : f32 = max %5)
    store y[0] = %6
    store y[1] = %7)"),
            R"(%0 : f32 = load x[0]
%1 : f32 = constant 1.0
for i < n {
%2 : f32 = load x[i]
%3 : f32 = mul %0, %1
} reduce(%4 : f32 = sum %2, %5 : f32 = max %3)
store y[0] = %4
store y[1] = %5
)");
}

TEST(LoopSimplify, MasksAndChecksThatAlwaysHold) {
  EXPECT_EQ(simplified(R"(
    %0 : bool = constant true
    %1 : bool = bitnot %0
    %2 : f32 = constant 5.0
    check %0, "never"
    %3 : f32 = load x[0] where %0 else %2
    %4 : f32 = load x[1] where %1 else %2
    store y[0] = %3 where %0
    store y[1] = %3 where %1
    store y[2] = %4)"),
            "%0 : f32 = constant 5.0\n%1 : f32 = load x[0]\nstore y[0] = %1\nstore y[2] = %0\n");
  const std::string_view fails = "%0 : bool = constant false\ncheck %0, \"always\"\n";
  EXPECT_EQ(simplified(fails), fails);
}

TEST(LoopSimplify, LoopsOfOneIterationAndOfNone) {
  EXPECT_EQ(simplified("parallel for i < 1 { for j < n { %0 : f32 = load x[i*n + j] store y[i + j] = %0 } }"),
            "for j < n {\n%0 : f32 = load x[j]\nstore y[j] = %0\n}\n");
  EXPECT_EQ(simplified("%0 : f32 = load x[0] for j < 0 { store y[j] = %0 } store y[0] = %0"),
            "%0 : f32 = load x[0]\nstore y[0] = %0\n");
  const std::string_view one = "for i < 1 {\n%0 : f32 = load x[i]\n} reduce(%1 : f32 = sum %0)\nstore y[0] = %1\n";
  EXPECT_EQ(simplified(one), one);
}

TEST(LoopSimplify, RemovesWhatNobodyReads) {
  EXPECT_EQ(simplified(R"(
    for i < n scan(%9 : f32 = sum %1, %8 : f32 = sum %9) {
      %0 : f32 = load x[i]
      %1 : f32 = exp %0
      store t[i] = %9
      %3 : f32 = neg %0
    } reduce(%4 : f32 = sum %3, %5 : f32 at %6 = max %0)
    for j < n { %7 : f32 = load x[j] }
    store y[0] = %5)"),
            "for i < n {\n%0 : f32 = load x[i]\n} reduce(%1 : f32 = max %0)\nstore y[0] = %1\n");
}

TEST(LoopSimplify, EffectsStay) {
  const std::string text(testing::kEverything);
  Kernel kernel = parse(text, "test");
  simplify(kernel);
  EXPECT_EQ(verify(kernel), "");
  const std::string after = print(kernel);
  for (const std::string_view part : {"check ", "streaming", "unrolled for u < 4", "scan(", "grain 8"}) {
    EXPECT_NE(after.find(part), std::string::npos) << part;
  }
}

TEST(LoopSimplify, ExactCasts) {
  EXPECT_TRUE(is_exact_cast(DType::kBF16, DType::kF32));
  EXPECT_TRUE(is_exact_cast(DType::kI16, DType::kF32));
  EXPECT_TRUE(is_exact_cast(DType::kU32, DType::kI64));
  EXPECT_TRUE(is_exact_cast(DType::kU8, DType::kBF16));
  EXPECT_TRUE(is_exact_cast(DType::kBool, DType::kF16));
  EXPECT_FALSE(is_exact_cast(DType::kF16, DType::kBF16));
  EXPECT_FALSE(is_exact_cast(DType::kI32, DType::kF32));
  EXPECT_FALSE(is_exact_cast(DType::kI8, DType::kU16));
  EXPECT_FALSE(is_exact_cast(DType::kU16, DType::kF16));
  EXPECT_FALSE(is_exact_cast(DType::kF32, DType::kI64));
  EXPECT_FALSE(is_exact_cast(DType::kI32, DType::kBool));
}

// Simplified kernels compute the same bits.
TEST(LoopSimplify, RandomKernelsKeepTheirMeaning) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    testing::RandomCase expected = testing::random_case(seed, {.special_values = seed % 3 == 0, .failures = true});
    testing::RandomCase got = expected;
    simplify(got.kernel);
    ASSERT_EQ(verify(got.kernel), "") << seed;
    const std::string failure = testing::interpret(expected);
    ASSERT_EQ(testing::interpret(got), failure) << seed;
    if (failure.empty()) {
      ASSERT_EQ(testing::difference(expected, got), "") << seed << "\n" << print(expected.kernel);
    }
    const std::string once = print(got.kernel);
    simplify(got.kernel);
    ASSERT_EQ(print(got.kernel), once) << seed;
  }
}

constexpr std::string_view kScale = R"(npugraph.loop 1 @scale {
  scalar n : int
  scalar f : float
  in x : f32
  out y : f32
  local t : f32[n]
  parallel for i < n grain max(1, floordiv(1024, n)) {
    vector for j < n {
      %0 : f32 = load x[i*n + j]
      store t[j] = %0
    }
    vector for k < n {
      %1 : f32 = load t[k]
      store y[i*n + k] = %1
    }
  }
}
)";

TEST(LoopSpecialise, SizesBecomeConstants) {
  const std::array<std::optional<int64_t>, 2> values = {64, std::nullopt};
  const Kernel made = specialised(parse(kScale, "test"), values);
  const std::string text = print(made);
  EXPECT_NE(text.find("scalar n : int"), std::string::npos) << text;
  EXPECT_NE(text.find("f32[64]"), std::string::npos) << text;
  EXPECT_NE(text.find("i < 64 grain 16"), std::string::npos) << text;
  EXPECT_NE(text.find("x[64*i + j]"), std::string::npos) << text;
  EXPECT_EQ(made.scalars.size(), 2u);
}

TEST(LoopSpecialise, WithoutValuesNothingChanges) {
  const std::array<std::optional<int64_t>, 2> none = {};
  const std::array<std::optional<int64_t>, 2> of_float = {std::nullopt, 3};
  const std::string text = print(specialised(parse(kScale, "test"), none));
  EXPECT_EQ(text, print(specialised(parse(kScale, "test"), of_float)));
  EXPECT_NE(text.find("i < n"), std::string::npos) << text;
}

TEST(LoopSpecialise, ComputesTheSame) {
  const Kernel kernel = parse(kScale, "test");
  for (const int64_t n : {0, 1, 2, 7, 16}) {
    std::vector<float> x(n * n), y(n * n), z(n * n);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    const std::vector<Scalar> scalars = {Scalar::of_int(n), Scalar::of_float(0)};
    const std::array<std::optional<int64_t>, 2> values = {n, std::nullopt};
    EXPECT_EQ(testing::run(kScale, {testing::host(x), testing::host(y)}, scalars), "");
    EXPECT_EQ(testing::run(print(specialised(kernel, values)), {testing::host(x), testing::host(z)}, scalars), "");
    EXPECT_EQ(y, x);
    EXPECT_EQ(z, x);
  }
}

}  // namespace

}  // namespace npugraph::loop
