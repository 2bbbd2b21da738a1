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

// Which results bypass the caches, and which operands are fetched ahead. No cache holds a row of 2^30 elements.

namespace {

int64_t count_of(const std::string& word, const std::string& body) {
  const program::Program program = lowered(body, {.generate = true});
  EXPECT_EQ(program.tasks.size(), 1u) << tasks_of(program);
  const std::string& text = std::get<std::string>(program.tasks.at(0).args.at(0));
  int64_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

int64_t streamed_stores(const std::string& body) { return count_of(" streaming", body); }
int64_t loads_ahead(const std::string& body) { return count_of(" ahead", body); }

std::string chain(const std::string& size) {
  return "input %x : f32[" + size + ", 16] user \"x\"\n%a : f32[" + size + ", 16] = aten.neg(%x)\n%b : f32[" + size +
         ", 16] = aten.exp(%a)\n";
}

std::string softmax(const std::string& sizes) {
  return "input %x : f32[" + sizes + "] user \"x\"\n%b : f32[" + sizes + "] = aten._softmax(%x, -1, false)\nreturn %b";
}

TEST(Streaming, LargeResultsGoPastTheCaches) {
  EXPECT_EQ(streamed_stores(chain("67108864") + "return %b"), 1);
  EXPECT_EQ(streamed_stores(chain("67108864") + "return %a, %b"), 2);
}

TEST(Streaming, ResultsThatACacheMayHoldDoNot) {
  EXPECT_EQ(streamed_stores(chain("64") + "return %b"), 0);
  EXPECT_EQ(streamed_stores("symbol s0 : int\n" + chain("s0") + "return %b"), 0);
}

TEST(Streaming, LargeOperandsAreFetchedAhead) {
  EXPECT_EQ(loads_ahead(chain("67108864") + "return %b"), 1);
  EXPECT_EQ(loads_ahead(chain("1048576") + "return %b"), 1);
  EXPECT_EQ(loads_ahead(chain("64") + "return %b"), 0);
  EXPECT_EQ(loads_ahead("symbol s0 : int\n" + chain("s0") + "return %b"), 0);
}

TEST(Streaming, TheLastLoopOverARowFetchesTheNextOne) { EXPECT_EQ(loads_ahead(softmax("65536, 16384")), 1); }

TEST(Streaming, ShortRowsDoNot) {
  EXPECT_EQ(streamed_stores(R"(
    input %x : f32[67108864, 16] user "x"
    %a : f32[67108864, 16] = aten.neg(%x)
    %b : f32[67108864, 16] = aten._softmax(%a, -1, false)
    return %b)"),
            0);
}

TEST(Streaming, ShortRowsOfWholeLinesDo) { EXPECT_EQ(streamed_stores(softmax("16777216, 64")), 1); }

TEST(Streaming, ResultsOfRowsDoNot) {
  EXPECT_EQ(streamed_stores(R"(
    input %x : f32[64, 16777216] user "x"
    %p : f32[64, 16777216] = aten.pow.Tensor_Scalar(%x, 2)
    %m : f32[64, 1] = aten.mean.dim(%p, [-1], true)
    return %m)"),
            0);
}

TEST(Streaming, ASmallPartOfALargeOperandDoesNot) {
  EXPECT_EQ(streamed_stores(R"(
    input %c : f32[1, 4, 16777216, 16] user "c"
    input %i : i64[1] user "i"
    input %x : f32[1, 4, 1, 16] user "x"
    %n : f32[1, 4, 1, 16] = aten.exp(%x)
    %u : f32[1, 4, 16777216, 16] = aten.index_copy_(%c, 2, %i, %n)
    return)"),
            0);
}

}  // namespace

}  // namespace npugraph::lower
