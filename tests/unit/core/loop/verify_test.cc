// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/error.h"
#include "loop/sample_kernels.h"
#include "loop/text.h"

namespace npugraph::loop {
namespace {

// Returns the rule that a kernel with this head and body breaks; empty if it breaks none.
std::string violation(std::string_view head, std::string_view body) {
  try {
    parse(cat("npugraph.loop 1 @k {\n", head, "\n", body, "\n}\n"), "t");
    return "";
  } catch (const UserError& error) {
    const std::string_view message = error.what();
    return std::string(message.starts_with("t: ") ? message.substr(3) : message);
  }
}

constexpr std::string_view kArguments =
    "scalar n : int scalar f : float scalar b : bool in x : f32 in h : bf16 out y : f32";
constexpr std::string_view kValues = R"(
%0 : f32 = load x[0]
%1 : i64 = index n
%2 : bool = constant true
%3 : bf16 = load h[0]
)";

std::string of_body(std::string_view body) { return violation(kArguments, cat(kValues, body)); }

struct VerifyCase {
  std::string_view body;
  std::string_view expected;
};

TEST(LoopVerify, TypesOfOperators) {
  const VerifyCase cases[] = {
      {"%4 : f32 = add %0, %0", ""},
      {"%4 : i64 = add %1, %1", ""},
      {"%4 : f64 = cast %3", ""},
      {"%4 : bf16 = select %2, %3, %3", ""},
      {"%4 : i16 = bitcast %3", ""},
      {"%4 : f32 = add %0", "%4: add takes 2 arguments, got 1"},
      {"%4 : f32 = add %0, %1", "%4: add takes one type, got f32 and i64"},
      {"%4 : bf16 = add %3, %3", "%4: add takes f32, f64 or an integer type, got bf16"},
      {"%4 : bool = add %2, %2", "%4: add takes f32, f64 or an integer type, got bool"},
      {"%4 : i64 = add %0, %0", "%4: add gives f32 here, not i64"},
      {"%4 : i64 = exp %1", "%4: exp takes f32 or f64, got i64"},
      {"%4 : f32 = bitand %0, %0", "%4: bitand takes an integer type or bool, got f32"},
      {"%4 : bool = shl %2, %2", "%4: shl takes an integer type, got bool"},
      {"%4 : f32 = lt %0, %0", "%4: lt gives bool here, not f32"},
      {"%4 : bool = lt %3, %3", "%4: lt takes f32, f64, an integer type or bool, got bf16"},
      {"%4 : f32 = select %0, %0, %0", "%4: select takes a bool as its condition, got f32"},
      {"%4 : i32 = bitcast %1", "%4: bitcast keeps the size, got i64 to i32"},
      {"%4 : u8 = bitcast %2", "%4: bitcast takes and gives no bool"},
      {"%4 : c64 = cast %0", "the value %4 is c64"},
  };
  for (const VerifyCase& c : cases) EXPECT_EQ(of_body(c.body), c.expected) << c.body;
}

TEST(LoopVerify, Leaves) {
  const VerifyCase cases[] = {
      {"%4 : f32 = constant 1", "%4: a constant of f32 is written as float"},
      {"%4 : i32 = constant 1.0", "%4: a constant of i32 is written as int"},
      {"%4 : bool = constant 1", "%4: a constant of bool is written as bool"},
      {"%4 : u8 = constant 256", "%4: 256 does not fit u8"},
      {"%4 : i32 = index n", "%4: index gives i64, not i32"},
      {"%4 : i64 = index f", "the expression f is no integer"},
      {"%4 : i64 = index to_int(f)", "the expression to_int(f) computes with floats"},
      {"%4 : i64 = index pow(n, n)", "the expression pow(n, n) has an operator that indices do not have"},
      {"%4 : i64 = index where(b, n, 1)", ""},
      {"%4 : f64 = scalar f", ""},
      {"%4 : f64 = scalar b", ""},
      {"%4 : f64 = scalar n", ""},
      {"%4 : f32 = scalar f", "%4: scalar gives f64, not f32"},
      {"%4 : f64 = scalar n + 1", "%4: scalar takes a symbol, got n + 1"},
      {"%4 : f64 = scalar v1", "%4: there is no scalar v1"},
  };
  for (const VerifyCase& c : cases) EXPECT_EQ(of_body(c.body), c.expected) << c.body;
}

TEST(LoopVerify, Memory) {
  const VerifyCase cases[] = {
      {"store x[0] = %0", "a store to x, which is only read"},
      {"store y[0] = %3", "a store of bf16 to y, which holds f32"},
      {"store y[0] = %0 where %1", "the mask %1 is i64, not bool"},
      {"%4 : f32 = load h[0]", "the load %4 gives f32, but h holds bf16"},
      {"%4 : bf16 = load h[0] where %2 else %0", "the load %4 gives f32 where masked, and bf16"},
      {"%4 : f32 = load x[v0]", "the value v0 in v0 is no integer"},
      {"%4 : f32 = load x[v1]", ""},
      {"%4 : f32 = load y[0]", ""},
  };
  for (const VerifyCase& c : cases) EXPECT_EQ(of_body(c.body), c.expected) << c.body;
}

TEST(LoopVerify, Checks) {
  const VerifyCase cases[] = {
      {"check %2, \"m % m\", %1", ""},
      {"check %2, \"m\"", ""},
      {"check %0, \"m\"", "the condition %0 of a check is f32, not bool"},
      {"check %2, \"\"", "a check has no message"},
      {"check %2, \"m % % m\", %1", "a check's message has more than one '%': m % % m"},
      {"check %2, \"m % m\"", "a check shows a value where its message has a '%', and only then: m % m"},
      {"check %2, \"m\", %1", "a check shows a value where its message has a '%', and only then: m"},
      {"check %2, \"m % m\", %0", "the value %0 of a check is no integer"},
      {"check %2, \"m {n + 1} of {2*n}\"", ""},
      {"check %2, \"m {n\"", ""},
      {"check %2, \"m {k}\"", "the symbol k in k is not visible"},
      {"check %2, \"m {f}\"", "the expression f is no integer"},
      {"for i < n { check %2, \"m {i}\" }", "the message of a check has {i}, where i is no scalar"},
  };
  for (const VerifyCase& c : cases) EXPECT_EQ(of_body(c.body), c.expected) << c.body;
}

TEST(LoopVerify, Loops) {
  const VerifyCase cases[] = {
      {"for i < n { for j < i { } }", ""},
      {"for i < n { } for j < n { }", ""},
      {"for i < n { } for i < n { }", "the name i is used twice"},
      {"for n < 4 { }", "the name n is used twice"},
      {"for v7 < 4 { }", "the loop variable name v7 is kept for a value"},
      {"for inf < 4 { }", "the loop variable name \"inf\" is no identifier"},
      {"for i < -1 { }", "the loop i has the extent -1"},
      {"for i < v1 { }", "the value v1 in v1: a size depends on scalars and loop variables alone"},
      {"unrolled for i < n { }", "the unrolled loop i has the extent n; a number up to 1024 is needed"},
      {"unrolled for i < 2000 { }", "the unrolled loop i has the extent 2000; a number up to 1024 is needed"},
      {"for i < n grain 4 { }", "the loop i has a grain but is not parallel"},
      {"parallel for i < n grain 0 { }", "the loop i has the grain 0"},
      {"for i < n { parallel for j < n { } }", "the parallel loop j is inside another loop"},
      {"vector for i < n { for j < n { vector for k < n { } } }", "the vector loop k is inside the vector loop i"},
      {"vector for i < n { for j < i { } }", "the extent of loop j depends on the variable of the vector loop i"},
      {"parallel for i < n { %4 : f32 = load x[i] } reduce(%5 : f32 = sum %4)",
       "the parallel loop i has a reduction or a scan"},
      {"unrolled for i < 4 scan(%5 : f32 = sum %4) { %4 : f32 = load x[i] }", "the unrolled loop i has a scan"},
  };
  for (const VerifyCase& c : cases) EXPECT_EQ(of_body(c.body), c.expected) << c.body;
}

TEST(LoopVerify, ReductionsAndScans) {
  const VerifyCase cases[] = {
      {"for i < n { %4 : f32 = load x[i] } reduce(%5 : f32 = sum %4, %6 : f32 at %7 = min %4) store y[0] = %5", ""},
      {"for i < n { %4 : bool = constant true } reduce(%5 : bool = and %4)", ""},
      {"for i < n { %4 : f32 = load x[i] } reduce(%5 : f32 = and %4)",
       "a reduction: and takes an integer type or bool, got f32"},
      {"for i < n { %4 : bf16 = load h[i] } reduce(%5 : bf16 = sum %4)",
       "a reduction: sum takes f32, f64 or an integer type, got bf16"},
      {"for i < n { %4 : f32 = load x[i] } reduce(%5 : f64 = sum %4)", "a reduction of f32 values gives f64"},
      {"for i < n { %4 : f32 = load x[i] } reduce(%5 : f32 at %6 = sum %4)",
       "a reduction with an index is sum, not min or max"},
      {"for i < n { } reduce(%5 : f32 = sum %0)", "the value %0 of a reduction is not defined in the body of loop i"},
      {"for i < n { for j < n { %4 : f32 = load x[i] } } reduce(%5 : f32 = sum %4)",
       "the value %4 of a reduction is not defined in the body of loop i"},
      {"for i < n scan(%5 : f32 = sum %4) { %4 : f32 = load x[i] store y[i] = %5 }", ""},
      {"for i < n scan(%5 : f32 = sum %0) { }", "the value %0 of a scan is not defined in the body of loop i"},
      {"for i < n scan(%5 : f32 = sum %4) { store y[i] = %5 %4 : f32 = load x[i] }",
       "a stored value, %5, is not visible where it is used"},
      {"for i < n { %4 : f32 = load x[i] } store y[0] = %4", "t:8:49: the value %4 is not visible here"},
  };
  for (const VerifyCase& c : cases) EXPECT_EQ(of_body(c.body), c.expected) << c.body;
}

TEST(LoopVerify, Heads) {
  const VerifyCase cases[] = {
      {"in x : f32 in x : f32", "the buffer name x is used twice"},
      {"scalar x : int in x : f32", ""},
      {"scalar x : int scalar x : int", "the name x is used twice"},
      {"scalar v0 : int", "the scalar name v0 is kept for a value"},
      {"in x : c64", "the buffer x has elements of c64"},
      {"local t : f32[4] in x : f32", "the buffer x is an argument after a local buffer"},
      {"local t : f32[4] shared u : f32[4]", "the buffer u is shared after a local buffer"},
      {"in x : f32 shared u : f32[4] local t : f32[4]", ""},
      {"scalar e : float local t : f32[e]", "the expression e is no integer"},
  };
  for (const VerifyCase& c : cases) EXPECT_EQ(violation(c.body, ""), c.expected) << c.body;
}

// Violations that the text form cannot express, but that code that builds kernels can make.
TEST(LoopVerify, NumbersOutOfRange) {
  const Kernel good = parse(testing::kEverything, "test");
  const auto broken = [&](auto edit) {
    Kernel kernel = good;
    edit(std::get<For>(kernel.body[2].node));
    return verify(kernel);
  };
  EXPECT_EQ(verify(good), "");
  EXPECT_EQ(broken([](For& loop) { std::get<Load>(loop.body[0].node).buffer = 9; }), "a load names the buffer 9 of 5");
  EXPECT_EQ(broken([](For& loop) { std::get<Load>(loop.body[0].node).id = 99; }), "a definition of %99 of 16 values");
  EXPECT_EQ(broken([](For& loop) { std::get<Let>(loop.body[2].node).args[0] = -7; }),
            "an argument is %-7 of 16 values");
  EXPECT_EQ(broken([](For& loop) { std::get<Load>(loop.body[0].node).mask = 0; }), "the mask %0 is f64, not bool");
  EXPECT_EQ(broken([](For& loop) {
              auto& load = std::get<Load>(std::get<For>(loop.body[5].node).body[3].node);
              load.otherwise = kNone;
            }),
            "the load %10 has a mask or a value for masked elements, but not both");
}

}  // namespace
}  // namespace npugraph::loop
