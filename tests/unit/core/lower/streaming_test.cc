// SPDX-License-Identifier: Apache-2.0
// Which results bypass the caches, and which operands are fetched ahead. No cache holds a row of 2^30 elements.
#include <gtest/gtest.h>

#include "lower/lower_testing.h"

namespace npugraph::lower {
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
