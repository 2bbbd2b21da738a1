// SPDX-License-Identifier: Apache-2.0
// Which nodes run together, and the loop nests that they become.
#include <gtest/gtest.h>

#include "lower/lower_testing.h"

namespace npugraph::lower {
namespace {

using program::Program;
using program::Task;
using program::TaskKind;

// x * cos + cat(-x2, x1) * sin
constexpr const char* kRotary = R"(
    input %x : f32[4, 8, 16] user "x"
    input %cos : f32[8, 16] user "cos"
    input %sin : f32[8, 16] user "sin"
    %a : f32[4, 8, 16] = aten.mul.Tensor(%x, %cos)
    %x1 : f32[4, 8, 8]{128, 16, 1} = aten.slice.Tensor(%x, 2, 0, 8) view(0)
    %x2 : f32[4, 8, 8]{128, 16, 1} = aten.slice.Tensor(%x, 2, 8, 16) view(8)
    %n : f32[4, 8, 8] = aten.neg(%x2)
    %c : f32[4, 8, 16] = aten.cat([%n, %x1], 2)
    %b : f32[4, 8, 16] = aten.mul.Tensor(%c, %sin)
    %y : f32[4, 8, 16] = aten.add.Tensor(%a, %b)
    )";

TEST(Concatenations, AreSelectedInRegisters) {
  const Program program = lowered(std::string(kRotary) + "return %y", {.generate = true});
  ASSERT_EQ(tasks_of(program), "loop.mul.neg.cat.mul.add");
  EXPECT_EQ(program.tasks[0].operands.size(), 6u);  // x whole and its halves, cos, sin, the result
}

constexpr const char* kTable = R"(
    input %w : f32[100, 16] user "w"
    input %i : i64[8] user "i"
    input %x : f32[8, 16] user "x"
    )";

TEST(Gathers, RunWithWhatFollows) {
  const Program program = lowered(std::string(kTable) + R"(
    %e : f32[8, 16] = aten.embedding(%w, %i)
    %y : f32[8, 16] = aten.add.Tensor(%e, %x)
    return %y)",
                                  {.generate = true});
  ASSERT_EQ(tasks_of(program), "loop.embedding.add");
  const std::string& text = std::get<std::string>(program.tasks[0].args.at(0));
  EXPECT_LT(text.find("check"), text.find("parallel")) << text;
}

TEST(Gathers, FailInTheirOrderWhenTheyMoveTogether) {
  const Program program = lowered(std::string(kTable) + R"(
    %a : f32[8, 16] = aten.embedding(%w, %i)
    %b : f32[8, 16] = aten.index_select(%x, 0, %i)
    %y : f32[8, 16] = aten.add.Tensor(%a, %b)
    return %y)",
                                  {.generate = true});
  ASSERT_EQ(tasks_of(program), "loop.embedding.index_select.add");
  const std::string& text = std::get<std::string>(program.tasks[0].args.at(0));
  EXPECT_LT(text.find("100"), text.find("index 8")) << text;
}

constexpr const char* kCache = R"(
    input %c : f32[1, 4, 32, 16] user "c"
    input %i : i64[2] user "i"
    input %k : f32[1, 4, 2, 16] user "k"
    )";

TEST(Writes, EndTheirCluster) {
  const Program program = lowered(std::string(kCache) + R"(
    %n : f32[1, 4, 2, 16] = aten.exp(%k)
    %u : f32[1, 4, 32, 16] = aten.index_copy_(%c, 2, %i, %n)
    %r : f32[1, 4, 32, 16] = aten.exp(%u)
    return %r)",
                                  {.generate = true});
  ASSERT_EQ(tasks_of(program), "loop.exp.index_copy_ aten.exp.out");
  EXPECT_EQ(program.tasks[0].operands.back().access, program::Access::kReadWrite);
}

constexpr const char* kFactors = R"(
    input %x : f32[128, 256] user "x"
    input %w : f32[512, 256] user "w"
    input %b : f32[512] user "b"
    %t : f32[256, 512]{1, 256} = aten.t(%w) view(0)
    %m : f32[128, 512] = aten.addmm(%b, %x, %t)
    )";

// A product computes its whole result, so a node that reads only a part of it cannot be its epilogue.
constexpr const char* kMoreRows = R"(
    symbol n : int
    input %g : f32[n + 7, 64] user "g"
    input %w : f32[64, 64] parameter "w"
    input %x : f32[n, 64] user "x"
    input %r : f32[64] user "r"
    %p : f32[n + 7, 64] = aten.mm(%g, %w)
    )";

TEST(Products, DoNotEndInTheirFirstRows) {
  const std::string reader = R"(
    %y : f32[n, 64] = aten.mul.Tensor(%s, %x)
    %z : f32[n, 64] = aten.relu(%y)
    return %z)";
  for (const std::string part : {"aten.slice.Tensor(%p, 0, 0, n) view(0)", "aten.narrow(%p, 0, 0, n) view(0)",
                                 "aten.as_strided(%p, [n, 64], [64, 1]) view(0)"})
    EXPECT_EQ(fused(std::string(kMoreRows) + "%s : f32[n, 64] = " + part + reader), "matmul.mm loop.mul.relu") << part;
}

// An epilogue gets the sums as numbers. A view of their bits as another type must be read from memory.
TEST(Products, DoNotEndInTheirBits) {
  EXPECT_EQ(fused(std::string(kFactors) + R"(
    %i : i32[128, 512] = aten.view.dtype(%m, i32) view(0)
    %a : i32[128, 512] = aten.bitwise_and.Scalar(%i, 255)
    %z : i32[128, 512] = aten.neg(%a)
    return %z)")
                .find("matmul.addmm "),
            0u);
}

// A matrix that is added has the rows of the product, which are not the rows of the view.
TEST(Products, DoNotEndInOtherRowsWhereAMatrixIsAdded) {
  const auto tasks = [](const std::string& bias, const std::string& sizes) {
    return fused("input %b : f32" + bias + R"( user "b"
    input %x : f32[128, 256] user "x"
    input %w : f32[256, 512] user "w"
    %m : f32[128, 512] = aten.addmm(%b, %x, %w)
    %v : f32)" + sizes +
                 " = aten.view(%m, " + sizes + ") view(0)\n%y : f32" + sizes + " = aten.tanh(%v)\nreturn %y");
  };
  for (const std::string sizes : {"[2, 64, 512]", "[128, 1, 512]"}) {
    EXPECT_EQ(tasks("[128, 512]", sizes), "matmul.addmm loop.tanh") << sizes;
    EXPECT_EQ(tasks("[128, 1]", sizes), "matmul.addmm loop.tanh") << sizes;
    EXPECT_EQ(tasks("[1, 512]", sizes), "matmul.addmm.tanh") << sizes;
  }
  EXPECT_EQ(tasks("[128, 512]", "[128, 512]"), "matmul.addmm.tanh");
}

TEST(LoopNest, SymbolicSizesAreScalars) {
  const Program program = lowered(R"(
    symbol s0 : int
    input %x : f32[s0, 16] user "x"
    %a : f32[s0, 16] = aten.neg(%x)
    %b : f32[s0, 16] = aten._softmax(%a, -1, false)
    return %b)",
                                  {.generate = true});
  ASSERT_EQ(tasks_of(program), "loop.neg._softmax");
  EXPECT_EQ(program.tasks[0].scalars.size(), 1u);
  const std::string& text = std::get<std::string>(program.tasks[0].args.at(0));
  EXPECT_NE(text.find("scalar s0"), std::string::npos) << text;
  EXPECT_NE(text.find("local row"), std::string::npos) << text;  // holds the exponentials of a row
}

}  // namespace
}  // namespace npugraph::lower
