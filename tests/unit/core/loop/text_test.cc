// SPDX-License-Identifier: Apache-2.0
#include "loop/text.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "loop/random_kernel.h"
#include "loop/sample_kernels.h"

namespace npugraph::loop {
namespace {

using testing::kEverything;

std::string refusal(std::string_view text) {
  try {
    parse(text, "test");
    return "nothing was refused";
  } catch (const UserError& error) {
    return error.what();
  }
}

// The sample with the first `from` replaced.
std::string edited(std::string_view from, std::string_view to) {
  std::string text(kEverything);
  const size_t position = text.find(from);
  EXPECT_NE(position, std::string::npos) << from;
  return text.replace(position, from.size(), to);
}

TEST(LoopText, EveryFeatureRoundTrips) { EXPECT_EQ(print(parse(kEverything, "test")), kEverything); }

TEST(LoopText, FieldsArriveWhereTheyBelong) {
  const Kernel kernel = parse(kEverything, "test");
  EXPECT_EQ(kernel.name, "everything");
  EXPECT_EQ(kernel.scalars[3].kind, ScalarKind::kBool);
  EXPECT_EQ(kernel.buffers[3].kind, Buffer::Kind::kInOut);
  EXPECT_EQ(kernel.buffers[4].elements, Expr::symbol("n") + Expr(16));
  EXPECT_EQ(kernel.dtypes[14], DType::kI64);
  const auto& rows = std::get<For>(kernel.body[2].node);
  EXPECT_EQ(rows.kind, For::Kind::kParallel);
  EXPECT_EQ(rows.grain, Expr(8));
  EXPECT_EQ(std::get<Check>(rows.body[3].node).shown, 2);
  EXPECT_EQ(std::get<Check>(rows.body[4].node).shown, kNone);
  const auto& columns = std::get<For>(rows.body[5].node);
  EXPECT_EQ(columns.scans[1].combine, Combine::kMax);
  EXPECT_EQ(columns.scans[1].value, 5);
  EXPECT_EQ(columns.reductions[1].index_result, 14);
  const auto& load = std::get<Load>(columns.body[3].node);
  EXPECT_EQ(load.mask, 4);
  EXPECT_EQ(load.otherwise, 9);
  EXPECT_FALSE(load.ahead);
  EXPECT_TRUE(std::get<Load>(columns.body[0].node).ahead);
  EXPECT_TRUE(std::get<Store>(columns.body[5].node).streaming);
  EXPECT_EQ(std::get<For>(rows.body[6].node).kind, For::Kind::kSerial);
}

TEST(LoopText, NumbersRoundTrip) {
  for (const std::string_view number :
       {"f32 = constant 0.1", "f64 = constant -0.0", "f64 = constant nan", "f32 = constant -inf",
        "bool = constant true", "u8 = constant 255", "i64 = constant -9223372036854775808", "bf16 = constant 1.5",
        "f64 = constant 5e-324"}) {
    const std::string text = cat("npugraph.loop 1 @k {\n  %0 : ", number, "\n}\n");
    EXPECT_EQ(print(parse(text, "test")), text);
  }
}

TEST(LoopText, NamesThatAreNoIdentifiersAreQuoted) {
  Kernel kernel;
  kernel.name = "add+relu \"1\"";
  EXPECT_EQ(print(kernel), "npugraph.loop 1 @\"add+relu \\\"1\\\"\" {\n}\n");
  EXPECT_EQ(parse(print(kernel), "test").name, kernel.name);
}

TEST(LoopText, NumbersOfValuesMayHaveGaps) {
  const std::string text = "npugraph.loop 1 @k {\n  %7 : f32 = constant 1.0\n  %3 : f32 = neg %7\n}\n";
  EXPECT_EQ(print(parse(text, "test")), text);
}

TEST(LoopText, MalformedTextIsRefusedWithItsPlace) {
  EXPECT_EQ(refusal(edited("loop 1", "loop 2")), "test:1:15: a kernel of version 2; this build reads version 1");
  EXPECT_EQ(refusal(edited("in x : bf16", "in x : b16")), "test:6:10: expected an element type, found 'b16'");
  EXPECT_EQ(refusal(edited("load at[i]", "load att[i]")), "test:14:21: the buffer att is not declared above");
  EXPECT_EQ(refusal(edited("x[i*n + j]", "x[i*n + q]")),
            "test:20:26: the symbol q of this expression is not visible here");
  EXPECT_EQ(refusal(edited("cast %7", "cast %15")), "test:21:23: the value %15 is not visible here");
  EXPECT_EQ(refusal(edited("cast %7", "casts %7")), "test:21:18: unknown operator casts");
  EXPECT_EQ(refusal(edited("%8 : f32 = cast", "%7 : f32 = cast")), "test:21:7: the value %7 is defined twice");
  EXPECT_EQ(refusal(edited("%8 : f32 = cast", "%99999999 : f32 = cast")),
            "test:21:7: expected a value, % and a number below 1048576");
  EXPECT_EQ(refusal(edited("constant -inf", "constant n")), "test:22:27: expected a number");
  EXPECT_EQ(refusal(edited("constant -5", "constant -500000000000")), "test: %3: -500000000000 does not fit i32");
}

// Every prefix of the text is refused. A text with one other character is refused, or is a kernel that round-trips.
TEST(LoopText, DamagedTextIsRefused) {
  const auto check = [](const std::string& text) {
    try {
      const Kernel kernel = parse(text, "test");
      EXPECT_EQ(print(parse(print(kernel), "test")), print(kernel));
      return false;
    } catch (const UserError&) {
      return true;
    }
  };
  for (size_t size = 0; size + 1 < kEverything.size(); ++size) {
    EXPECT_TRUE(check(std::string(kEverything.substr(0, size)))) << "the first " << size << " characters";
  }
  for (size_t i = 0; i < kEverything.size(); ++i) {
    for (const char c : {'%', '0', '}', '(', ' ', 'x', '-'}) {
      std::string text(kEverything);
      text[i] = c;
      check(text);
    }
  }
}

TEST(LoopText, RandomKernelsRoundTrip) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Kernel kernel = testing::random_case(seed, {.failures = true}).kernel;
    const std::string text = print(kernel);
    ASSERT_EQ(print(parse(text, "test")), text) << "seed " << seed;
  }
}

TEST(LoopText, DeepNestingIsRefused) {
  std::string text = "npugraph.loop 1 @k {\n";
  for (int i = 0; i < 100000; ++i) text += cat("for i", i, " < 2 {");
  EXPECT_EQ(refusal(text).substr(0, 7), "test:2:");
}

}  // namespace
}  // namespace npugraph::loop
