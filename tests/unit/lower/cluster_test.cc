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

TEST(Clusters, ColumnsAreNoRows) {
  EXPECT_EQ(fused(std::string(kInputs) + R"(
    %t : f32[16, 8]{1, 16} = aten.t(%x) view(0)
    %a : f32[16, 8]{1, 16} = aten.neg(%t)
    %b : f32[16, 8]{1, 16} = aten.abs(%a)
    return %b)"),
            "kernel.unary_neg kernel.unary_abs");
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
            "matmul.addmm aten.gelu.out");
}

TEST(Products, ReductionsRunBehind) {
  EXPECT_EQ(fused(std::string(kFactors) + R"(
    %a : f32[128, 512] = aten.mul.Tensor(%m, 2)
    %s : f32[128, 512] = aten._softmax(%a, -1, false)
    return %s)"),
            "matmul.addmm loop.mul._softmax");
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
