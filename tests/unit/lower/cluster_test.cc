// SPDX-License-Identifier: Apache-2.0
// Which nodes run together, and the loop nests that they become.
#include <gtest/gtest.h>

#include "lower/lower_testing.h"

namespace npugraph::lower {
namespace {

using program::Program;
using program::Task;
using program::TaskKind;

std::string fused(const std::string& body) { return tasks_of(lowered(body, {.generate = true})); }

constexpr const char* kInputs = "input %x : f32[8, 16] user \"x\"\ninput %w : f32[16] user \"w\"\n";

TEST(Clusters, ChainsBecomeOneTask) {
  const Program program = lowered(std::string(kInputs) + R"(
    %a : f32[8, 16] = aten.mul.Tensor(%x, %w)
    %b : f32[8, 16] = aten.exp(%a)
    return %b)",
                                  {.generate = true});
  ASSERT_EQ(tasks_of(program), "loop.mul.exp");
  const Task& task = program.tasks[0];
  EXPECT_EQ(task.kind, TaskKind::kLoop);
  EXPECT_EQ(task.operands.size(), 3u);  // x, w and the result: %a is in no memory
  EXPECT_EQ(program.buffers.size(), 3u);
}

TEST(Clusters, ReductionsOverRowsJoin) {
  EXPECT_EQ(fused(std::string(kInputs) + R"(
    %p : f32[8, 16] = aten.pow.Tensor_Scalar(%x, 2)
    %m : f32[8, 1] = aten.mean.dim(%p, [-1], true)
    %r : f32[8, 1] = aten.rsqrt(%m)
    %y : f32[8, 16] = aten.mul.Tensor(%x, %r)
    return %y)"),
            "loop.pow.mean.rsqrt.mul");
}

// The concatenation copies an element, in a loop that has none for the part.
TEST(Clusters, ConcatenationsDoNotJoinEmptyParts) {
  EXPECT_EQ(fused(R"(
    input %x : f32[1] user "x"
    input %y : f32[0] user "y"
    %a : f32[0] = aten.neg(%y)
    %b : f32[0] = aten.exp(%a)
    %c : f32[1] = aten.cat([%x, %b])
    return %c)"),
            "kernel.unary_neg aten.exp.out aten.cat.out*");
}

TEST(Clusters, SingleNodesStayAsTheyAre) {
  EXPECT_EQ(fused(std::string(kInputs) + "%a : f32[8, 16] = aten.neg(%x)\nreturn %a"), "kernel.unary_neg");
}

TEST(Clusters, WhatOthersReadIsStored) {
  const Program program = lowered(std::string(kInputs) + R"(
    %a : f32[8, 16] = aten.neg(%x)
    %b : f32[8, 16] = aten.exp(%a)
    return %a, %b)",
                                  {.generate = true});
  EXPECT_EQ(tasks_of(program), "loop.neg.exp");
  EXPECT_EQ(program.tasks[0].operands.size(), 3u);
}

// Another task reads %a before %b could run.
TEST(Clusters, DoNotMoveBehindTheirReaders) {
  EXPECT_EQ(fused(std::string(kInputs) + R"(
    %a : f32[8, 16] = aten.neg(%x)
    %t : f32[16, 8] = aten.t(%a) view(0)
    %m : f32[8, 8] = aten.mm(%a, %t)
    %b : f32[8, 16] = aten.abs(%a)
    return %m, %b)"),
            "kernel.unary_neg kernel.mm_f32 kernel.unary_abs");
}

TEST(Clusters, DoNotMoveBehindWritesOfWhatTheyRead) {
  EXPECT_EQ(fused(std::string(kInputs) + R"(
    %a : f32[8, 16] = aten.neg(%x)
    %u : f32[8, 16] = aten.mul_.Tensor(%x, 2)
    %b : f32[8, 16] = aten.exp(%a)
    return %b)"),
            "kernel.unary_neg kernel.binary_mul aten.exp.out");
}

TEST(Clusters, OtherShapesStayApart) {
  EXPECT_EQ(fused(std::string(kInputs) + R"(
    %a : f32[16] = aten.neg(%w)
    %b : f32[8, 16] = aten.add.Tensor(%x, %a)
    return %b)"),
            "kernel.unary_neg kernel.binary_add");
}

TEST(Clusters, SingleNodesAreGeneratedWhereTheyAreLarge) {
  EXPECT_EQ(fused(std::string(kInputs) + "%a : f32[8, 16] = aten.tanh(%x)\nreturn %a"), "aten.tanh");
  EXPECT_EQ(fused("input %x : f32[200, 100] user \"x\"\n%a : f32[200, 100] = aten.tanh(%x)\nreturn %a"), "loop.tanh");
}

TEST(Clusters, AlongTheDimensionInWhichAllAreDense) {
  EXPECT_EQ(fused(std::string(kInputs) + R"(
    %t : f32[16, 8]{1, 16} = aten.t(%x) view(0)
    %a : f32[16, 8]{1, 16} = aten.neg(%t)
    %b : f32[16, 8]{1, 16} = aten.abs(%a)
    return %b)"),
            "loop.neg.abs");
}

TEST(Clusters, NotAlongDifferentDimensions) {
  EXPECT_EQ(fused(std::string(kInputs) + R"(
    %t : f32[16, 8]{1, 16} = aten.t(%x) view(0)
    %a : f32[16, 8]{8, 1} = aten.exp(%t)
    return %a)"),
            "aten.exp.out");
}

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

TEST(Concatenations, LeavePartsThatOthersRead) {
  EXPECT_EQ(fused(std::string(kRotary) + "return %y, %n"), "kernel.unary_neg loop.mul.cat.mul.add");
}

TEST(Concatenations, ByThemselvesAreCopies) {
  EXPECT_EQ(fused(R"(
    input %x : f32[4, 8] user "x"
    input %y : f32[4, 8] user "y"
    %c : f32[4, 16] = aten.cat([%x, %y], 1)
    return %c)"),
            "aten.cat.out*");
}

TEST(Concatenations, WithNothingAreTheirOnlyPart) {
  EXPECT_EQ(fused(R"(
    input %x : f32[4, 8] user "x"
    input %e : f32[0] user "e"
    %n : f32[4, 8] = aten.tanh(%x)
    %c : f32[4, 8] = aten.cat([%e, %n], 0)
    return %c)"),
            "loop.tanh.cat");
}

TEST(Concatenations, OfRowsStayApart) {
  EXPECT_EQ(fused(R"(
    input %x : f32[4, 8] user "x"
    input %y : f32[4, 8] user "y"
    %n : f32[4, 8] = aten.tanh(%x)
    %c : f32[8, 8] = aten.cat([%n, %y], 0)
    return %c)"),
            "aten.tanh aten.cat.out*");
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

TEST(Gathers, DoNotTakeOverWhatTheyReadFrom) {
  EXPECT_EQ(fused(std::string(kTable) + R"(
    %v : f32[100, 16] = aten.tanh(%w)
    %e : f32[8, 16] = aten.embedding(%v, %i)
    %y : f32[8, 16] = aten.add.Tensor(%e, %x)
    return %y)"),
            "aten.tanh loop.embedding.add");
}

// A failure must be seen before what is written in between.
TEST(Gathers, DoNotFailBehindWrites) {
  EXPECT_EQ(fused(std::string(kTable) + R"(
    input %z : f32[8, 16] user "z"
    %e : f32[8, 16] = aten.embedding(%w, %i)
    %u : f32[8, 16] = aten.mul_.Tensor(%z, 2)
    %y : f32[8, 16] = aten.exp(%e)
    return %y)"),
            "loop.embedding kernel.binary_mul aten.exp.out");
}

TEST(Gathers, DoNotFailBehindOthersThatMay) {
  EXPECT_EQ(fused(std::string(kTable) + R"(
    %e : f32[8, 16] = aten.embedding(%w, %i)
    %o : i64[8] = aten.take(%i, %i)
    %y : f32[8, 16] = aten.exp(%e)
    return %y, %o)"),
            "loop.embedding aten.take aten.exp.out");
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

TEST(Writes, DoNotScatterIntoWhatTheirClusterReads) {
  EXPECT_EQ(fused(std::string(kCache) + R"(
    %o : f32[1, 4, 2, 16]{2048, 512, 16, 1} = aten.slice.Tensor(%c, 2, 0, 2) view(0)
    %n : f32[1, 4, 2, 16] = aten.exp(%o)
    %u : f32[1, 4, 32, 16] = aten.index_copy_(%c, 2, %i, %n)
    return)"),
            "aten.exp.out loop.index_copy_");
}

TEST(Writes, ElementwiseMayReadTheSameElements) {
  EXPECT_EQ(fused(R"(
    input %x : f32[8, 16] user "x"
    input %y : f32[8, 16] user "y"
    %a : f32[8, 16] = aten.mul.Tensor(%x, %y)
    %b : f32[8, 16] = aten.tanh(%a)
    %u : f32[8, 16] = aten.copy_(%x, %b)
    return)"),
            "loop.mul.tanh.copy_");
}

TEST(Writes, ButNotOtherElements) {
  EXPECT_EQ(fused(R"(
    input %x : f32[9, 16] user "x"
    %lo : f32[8, 16] = aten.slice.Tensor(%x, 0, 0, 8) view(0)
    %hi : f32[8, 16] = aten.slice.Tensor(%x, 0, 1, 9) view(16)
    %a : f32[8, 16] = aten.tanh(%lo)
    %u : f32[8, 16] = aten.copy_(%hi, %a)
    return)"),
            "aten.tanh aten.copy_*");
}

// A row that a walk reads again must not be overwritten before.
TEST(Writes, DoNotOverwriteRowsThatAreReducedTogether) {
  EXPECT_EQ(fused(R"(
    input %x : f32[8, 16] user "x"
    %s : f32[8, 16] = aten._softmax(%x, -1, false)
    %u : f32[8, 16] = aten.copy_(%x, %s)
    return)"),
            "aten._softmax aten.copy_*");
}

TEST(Writes, OtherTypesStayWithTorch) {
  EXPECT_EQ(fused(R"(
    input %x : bf16[8, 16] user "x"
    input %y : f32[8, 16] user "y"
    %u : bf16[8, 16] = aten.mul_.Tensor(%x, %y)
    return)"),
            "aten.mul_.Tensor");
}

TEST(Rows, ReductionsWithoutTheirDimension) {
  EXPECT_EQ(fused(std::string(kInputs) + R"(
    %a : f32[8, 16] = aten.exp(%x)
    %s : f32[8] = aten.sum.dim_IntList(%a, [-1], false)
    %i : i64[8] = aten.argmax(%a, -1)
    return %s, %i)"),
            "loop.exp.sum.argmax");
}

// [16] beside [16, 16] is a column, not a row.
TEST(Rows, AreNotReadAsColumns) {
  EXPECT_EQ(fused(R"(
    input %x : f32[16, 16] user "x"
    %a : f32[16, 16] = aten.exp(%x)
    %s : f32[16] = aten.sum.dim_IntList(%a, [-1], false)
    %y : f32[16, 16] = aten.mul.Tensor(%a, %s)
    return %y)"),
            "loop.exp.sum kernel.binary_mul");
}

constexpr const char* kFactors = R"(
    input %x : f32[128, 256] user "x"
    input %w : f32[512, 256] user "w"
    input %b : f32[512] user "b"
    %t : f32[256, 512]{1, 256} = aten.t(%w) view(0)
    %m : f32[128, 512] = aten.addmm(%b, %x, %t)
    )";

TEST(Products, WhatFollowsWorksOnTheirSums) {
  EXPECT_EQ(fused(std::string(kFactors) + R"(
    %v : f32[1, 128, 512] = aten.view(%m, [1, 128, 512]) view(0)
    %g : f32[1, 128, 512] = aten.gelu(%v)
    return %g)"),
            "matmul.addmm.gelu");
}

TEST(Products, WhatOthersReadTooIsStoredFirst) {
  EXPECT_EQ(fused(std::string(kFactors) + R"(
    %g : f32[128, 512] = aten.gelu(%m)
    return %m, %g)"),
            "matmul.addmm loop.gelu");
}

TEST(Products, ReductionsRunBehind) {
  EXPECT_EQ(fused(std::string(kFactors) + R"(
    %a : f32[128, 512] = aten.mul.Tensor(%m, 2)
    %s : f32[128, 512] = aten._softmax(%a, -1, false)
    return %s)"),
            "matmul.addmm loop.mul._softmax");
}

// What a product computes is all of its result, so nothing that reads a part of it can be its end.
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

TEST(Products, DoNotEndInTheirLastRows) {
  EXPECT_EQ(fused(std::string(kMoreRows) + R"(
    %s : f32[n, 64] = aten.slice.Tensor(%p, 0, 7, n + 7) view(448)
    %y : f32[n, 64] = aten.mul.Tensor(%s, %x)
    %z : f32[n, 64] = aten.relu(%y)
    return %z)"),
            "matmul.mm loop.mul.relu");
}

TEST(Products, DoNotEndInOneOfTheirRows) {
  EXPECT_EQ(fused(std::string(kMoreRows) + R"(
    %s : f32[64] = aten.select.int(%p, 0, 0) view(0)
    %y : f32[64] = aten.mul.Tensor(%s, %r)
    %z : f32[64] = aten.tanh(%y)
    return %z)"),
            "matmul.mm loop.mul.tanh");
}

// The same for sizes that are all known.
TEST(Products, DoNotEndInAPartOfKnownSize) {
  EXPECT_EQ(fused(std::string(kFactors) + R"(
    %s : f32[100, 512] = aten.slice.Tensor(%m, 0, 0, 100) view(0)
    %y : f32[100, 512] = aten.mul.Tensor(%s, 2)
    %z : f32[100, 512] = aten.relu(%y)
    return %z)"),
            "matmul.addmm loop.mul.relu");
}

TEST(Products, DoNotEndInAFewOfTheirMatrices) {
  EXPECT_EQ(fused(R"(
    symbol n : int
    input %g : f32[n + 2, 32, 64] user "g"
    input %w : f32[n + 2, 64, 64] user "w"
    input %x : f32[n, 32, 64] user "x"
    %p : f32[n + 2, 32, 64] = aten.bmm(%g, %w)
    %s : f32[n, 32, 64] = aten.slice.Tensor(%p, 0, 0, n) view(0)
    %y : f32[n, 32, 64] = aten.mul.Tensor(%s, %x)
    %z : f32[n, 32, 64] = aten.relu(%y)
    return %z)"),
            "matmul.bmm loop.mul.relu");
}

// All of the sums in other sizes, of which only polynomials tell that they are as many.
TEST(Products, EndInAllOfTheirRowsByAnotherName) {
  EXPECT_EQ(fused(R"(
    symbol a : int
    symbol b : int
    input %g : f32[a*b + 2*a, 64] user "g"
    input %x : f32[a, b + 2, 64] user "x"
    input %w : f32[64, 64] parameter "w"
    %p : f32[a*b + 2*a, 64] = aten.mm(%g, %w)
    %s : f32[a, b + 2, 64] = aten.view(%p, [a, b + 2, 64]) view(0)
    %y : f32[a, b + 2, 64] = aten.mul.Tensor(%s, %x)
    %z : f32[a, b + 2, 64] = aten.relu(%y)
    return %z)"),
            "matmul.mm.mul.relu");
}

// Sums are numbers: their bits as another type are read from memory.
TEST(Products, DoNotEndInTheirBits) {
  EXPECT_EQ(fused(std::string(kFactors) + R"(
    %i : i32[128, 512] = aten.view.dtype(%m, i32) view(0)
    %a : i32[128, 512] = aten.bitwise_and.Scalar(%i, 255)
    %z : i32[128, 512] = aten.neg(%a)
    return %z)")
                .find("matmul.addmm "),
            0u);
}

// What is added to each row has the rows of the product, which those of the view are not.
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

TEST(Products, SmallOnesAreKernels) {
  EXPECT_EQ(fused(std::string(kInputs) + R"(
    %t : f32[16, 8]{1, 16} = aten.t(%x) view(0)
    %m : f32[8, 8] = aten.mm(%x, %t)
    return %m)"),
            "kernel.mm_f32");
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
  EXPECT_NE(text.find("local row"), std::string::npos) << text;  // the exponentials
}

}  // namespace
}  // namespace npugraph::lower
