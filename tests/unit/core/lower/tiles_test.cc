// SPDX-License-Identifier: Apache-2.0
// Transposing copies, and what runs with them.
#include <gtest/gtest.h>

#include "lower/lower_testing.h"

namespace npugraph::lower {
namespace {

constexpr const char* kTransposed = R"(
    input %x : f32[200, 300] user "x"
    input %y : f32[300, 200] user "y"
    input %r : f32[200] user "r"
    %t : f32[300, 200]{1, 300} = aten.t(%x) view(0)
    )";

program::Program lowered_transposed(const std::string& body) { return lowered(kTransposed + body, {.generate = true}); }

bool has_tiles(const program::Program& program) {
  return std::get<std::string>(program.tasks.at(0).args.at(0)).find("local tile") != std::string::npos;
}

TEST(Tiles, StageWhatHasItsNeighboursElsewhere) {
  const program::Program program = lowered_transposed("%c : f32[300, 200]{200, 1} = aten.tanh(%t)\nreturn %c");
  ASSERT_EQ(tasks_of(program), "loop.tanh");
  EXPECT_TRUE(has_tiles(program));
}

TEST(Tiles, TurnCopiesAlone) {
  const program::Program program = lowered_transposed("%c : f32[300, 200]{200, 1} = aten.clone(%t)\nreturn %c");
  ASSERT_EQ(tasks_of(program), "loop.clone*");
  EXPECT_TRUE(has_tiles(program));
}

TEST(Tiles, RunWithOtherElementwiseNodes) {
  const program::Program program = lowered_transposed(R"(
    %a : f32[300, 200] = aten.add.Tensor(%y, %r)
    %b : f32[300, 200] = aten.mul.Tensor(%a, %t)
    %c : f32[300, 200] = aten.exp(%b)
    return %c)");
  ASSERT_EQ(tasks_of(program), "loop.add.mul.exp");
  EXPECT_TRUE(has_tiles(program));
}

TEST(Tiles, AreNotNeededWhereAllHaveTheirNeighboursInOneDimension) {
  const program::Program program = lowered_transposed(R"(
    %a : f32[300, 200]{1, 300} = aten.exp(%t)
    %b : f32[300, 200]{1, 300} = aten.neg(%a)
    return %b)");
  ASSERT_EQ(tasks_of(program), "loop.exp.neg");
  EXPECT_FALSE(has_tiles(program));
}

TEST(Tiles, DoNotRunWithReductions) {
  EXPECT_EQ(tasks_of(lowered_transposed(R"(
    %a : f32[300, 200] = aten.mul.Tensor(%y, %t)
    %s : f32[300] = aten.sum.dim_IntList(%a, [1])
    return %s)")),
            "loop.mul loop.sum");
}

// The two operands and the result are contiguous along three different dimensions.
TEST(Tiles, NotOfThreeOrders) {
  EXPECT_EQ(tasks_of(lowered(R"(
    input %x : f32[40, 50, 60] user "x"
    input %y : f32[50, 60, 40] user "y"
    %p : f32[60, 40, 50]{1, 3000, 60} = aten.permute(%x, [2, 0, 1]) view(0)
    %q : f32[60, 40, 50]{40, 1, 2400} = aten.permute(%y, [1, 2, 0]) view(0)
    %a : f32[60, 40, 50]{2000, 50, 1} = aten.add.Tensor(%p, %q)
    return %a)",
                             {.generate = true})),
            "aten.add.Tensor");
}

}  // namespace
}  // namespace npugraph::lower
