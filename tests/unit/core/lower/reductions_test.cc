// SPDX-License-Identifier: Apache-2.0
// Loop nests of reductions: which dimensions are combined, in which form, and with what.
#include <gtest/gtest.h>

#include "lower/lower_testing.h"

namespace npugraph::lower {
namespace {

using program::Program;

// The kernel of the only task.
std::string kernel(const std::string& body) {
  const Program program = lowered(body, {.generate = true});
  EXPECT_EQ(program.tasks.size(), 1u) << tasks_of(program);
  return std::get<std::string>(program.tasks.at(0).args.at(0));
}

size_t count(const std::string& text, const std::string& wanted) {
  size_t found = 0;
  for (size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) ++found;
  return found;
}

constexpr const char* kImage = "input %x : f32[2, 56, 56, 384] user \"x\"\n";

TEST(Reductions, OverOtherDimensionsHaveColumnsInLanes) {
  const std::string text = kernel(std::string(kImage) + R"(
    %n : f32[2, 1, 1, 384] = aten.linalg_vector_norm(%x, 2, [1, 2], true)
    return %n)");
  EXPECT_EQ(count(text, "parallel for"), 1u) << text;
  EXPECT_EQ(count(text, "vector for"), 1u) << text;
  EXPECT_LT(text.find("vector for"), text.find("reduce(")) << text;
  EXPECT_EQ(count(text, "reduce("), 2u) << "in pieces, and what the pieces come to\n" << text;
}

TEST(Reductions, OverTheLastDimensionsAreOneWalk) {
  const std::string text = kernel(R"(
    input %x : f32[8, 64, 7, 7] user "x"
    %m : f32[8, 64] = aten.mean.dim(%x, [-1, -2])
    return %m)");
  EXPECT_EQ(count(text, "for "), 2u) << text;
  EXPECT_NE(text.find("< 49"), std::string::npos) << text;
}

TEST(Reductions, OfEverythingAreSharedByThreads) {
  const std::string text = kernel(R"(
    input %x : f32[1000, 100] user "x"
    input %y : f32[1000, 100] user "y"
    %d : f32[1000, 100] = aten.sub.Tensor(%x, %y)
    %s : f32[] = aten.sum(%d)
    return %s)");
  EXPECT_EQ(count(text, "shared "), 1u) << text;
  EXPECT_EQ(count(text, "parallel for"), 1u) << text;
  EXPECT_EQ(count(text, "vector for"), 2u) << text;
}

TEST(Reductions, FewColumnsAreSharedByThreads) {
  const std::string text = kernel(R"(
    input %x : f32[100000, 16] user "x"
    %s : f32[16] = aten.sum.dim_IntList(%x, [0])
    return %s)");
  EXPECT_EQ(count(text, "shared "), 1u) << text;
}

TEST(Reductions, ManyColumnsAreNot) {
  const std::string text = kernel(R"(
    input %x : f32[100, 10000] user "x"
    %s : f32[10000] = aten.sum.dim_IntList(%x, [0])
    return %s)");
  EXPECT_EQ(count(text, "shared "), 0u) << text;
}

TEST(Reductions, NormsOverOtherDimensionsReadTheirInputAgain) {
  const std::string text = kernel(R"(
    input %x : f32[4, 32, 400] user "x"
    %s : f32[4, 32, 400] = aten._softmax(%x, 1, false)
    return %s)");
  EXPECT_EQ(count(text, "local "), 0u) << text;
  EXPECT_EQ(count(text, "vector for"), 1u) << text;
}

TEST(Reductions, OfOtherDimensionsStayApart) {
  EXPECT_EQ(fused(std::string(kImage) + R"(
    %a : f32[2, 56, 56, 384] = aten.exp(%x)
    %s : f32[2, 384] = aten.sum.dim_IntList(%a, [1, 2])
    %t : f32[2, 56, 56] = aten.sum.dim_IntList(%a, [3])
    return %s, %t)"),
            "loop.exp.sum loop.sum");
}

TEST(Reductions, DoNotCombineWhatHasAnotherSize) {
  EXPECT_EQ(fused(R"(
    input %x : f32[64, 1024] user "x"
    %e : f32[64, 1024] = aten.tanh(%x)
    %m : f32[64, 1] = aten.mean.dim(%e, [1], true)
    %n : f32[1, 1] = aten.mean.dim(%m, [0], true)
    return %n)"),
            "loop.tanh.mean aten.mean.dim");
}

TEST(Reductions, UnknownOrdersStayWithTorch) {
  EXPECT_EQ(fused(std::string(kImage) + R"(
    %n : f32[2, 1, 1, 384] = aten.linalg_vector_norm(%x, 3, [1, 2], true)
    return %n)"),
            "aten.linalg_vector_norm");
}

TEST(Reductions, OfConcatenationsAreOverTheirDimensionOrStayApart) {
  constexpr const char* kParts = R"(
    input %x : f32[64, 512] user "x"
    input %y : f32[64, 512] user "y"
    %n : f32[64, 512] = aten.neg(%y)
    %c : f32[64, 1024] = aten.cat([%x, %n], 1)
    )";
  EXPECT_EQ(fused(std::string(kParts) + "%s : f32[64] = aten.sum.dim_IntList(%c, [1])\nreturn %s"), "loop.neg.cat.sum");
  EXPECT_EQ(fused(std::string(kParts) + "%s : f32[1024] = aten.sum.dim_IntList(%c, [0])\nreturn %s"),
            "loop.neg.cat* loop.sum");
}

TEST(Scans, OverOtherDimensionsGoDownColumns) {
  const std::string text = kernel(R"(
    input %x : f32[4, 300, 64] user "x"
    %s : f32[4, 300, 64] = aten.cumsum(%x, 1)
    return %s)");
  EXPECT_LT(text.find("vector for"), text.find("scan(")) << text;
}

TEST(Windows, ReadAroundAndRunWithWhatFollows) {
  const std::string text = kernel(R"(
    input %x : f32[1, 64, 112, 112] user "x"
    %p, none : f32[1, 64, 56, 56], none = aten.max_pool2d_with_indices(%x, [3, 3], [2, 2], [1, 1])
    %y : f32[1, 64, 56, 56] = aten.relu(%p)
    return %y)");
  EXPECT_EQ(count(text, "= load"), 9u) << text;
}

TEST(Windows, DoNotTakeOverWhatTheyRead) {
  EXPECT_EQ(fused(R"(
    input %x : f32[1, 64, 112, 112] user "x"
    %t : f32[1, 64, 112, 112] = aten.tanh(%x)
    %y : f32[1, 64, 56, 56] = aten.avg_pool2d(%t, [2, 2])
    return %y)"),
            "loop.tanh loop.avg_pool2d");
}

}  // namespace
}  // namespace npugraph::lower
