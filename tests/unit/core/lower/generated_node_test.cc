// SPDX-License-Identifier: Apache-2.0
// Which nodes become part of the task of a convolution.
#include <gtest/gtest.h>

#include "lower/lower_testing.h"

namespace npugraph::lower {

namespace {

constexpr const char* kConvolution = R"(
    input %x : f32[2, 16, 20, 20] user "x"
    input %w : f32[32, 16, 3, 3] parameter "w"
    input %b : f32[32] parameter "b"
    input %r : f32[2, 32, 20, 20] user "r"
    %c : f32[2, 32, 20, 20] = aten.convolution(%x, %w, %b, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
    )";

program::Program lowered_convolution(const std::string& body) {
  return lowered(std::string(kConvolution) + body, {.generate = true});
}

const std::string& task_text(const program::Task& task) { return std::get<std::string>(task.args.at(0)); }

TEST(Convolutions, ByThemselvesAddTheirBias) {
  const program::Program program = lowered_convolution("return %c");
  ASSERT_EQ(tasks_of(program), "convolution");
  EXPECT_EQ(task_text(program.tasks[0]), "npugraph.convolution 1 bias stride 1 1 padding 1 1 dilation 1 1");
  EXPECT_EQ(program.tasks[0].operands.size(), 4u);
}

TEST(Convolutions, TakeWhatFollowsOnTheirSums) {
  const program::Program program = lowered_convolution(R"(
    %a : f32[2, 32, 20, 20] = aten.add.Tensor(%c, %r)
    %y : f32[2, 32, 20, 20] = aten.relu(%a)
    return %y)");
  ASSERT_EQ(tasks_of(program), "convolution.convolution.add.relu");
  EXPECT_TRUE(task_text(program.tasks[0]).starts_with("npugraph.convolution 1 stride 1 1 padding 1 1 dilation 1 1\n"));
  EXPECT_EQ(program.tasks[0].operands.size(), 5u);  // weights, image, bias, %r, %y
}

TEST(Convolutions, TakeNumbersOfChannels) {
  EXPECT_EQ(tasks_of(lowered(std::string(R"(
    input %g : f32[32, 1, 1] parameter "g"
    )") + kConvolution + R"(
    %n : f32[2, 32, 20, 20] = aten.mul.Tensor(%c, %g)
    %y : f32[2, 32, 20, 20] = aten.relu(%n)
    return %y)",
                             {.generate = true})),
            "convolution.convolution.mul.relu");
}

TEST(Convolutions, StoreWhatOthersReadToo) {
  EXPECT_EQ(tasks_of(lowered_convolution("%y : f32[2, 32, 20, 20] = aten.relu(%c)\nreturn %c, %y")),
            "convolution loop.relu");
}

// With one image and one channel, a part of the rows is as dense as the whole result.
TEST(Convolutions, DoNotEndInAPartOfTheirPixels) {
  EXPECT_EQ(tasks_of(lowered(R"(
    symbol n : int
    input %x : f32[1, 4, n + 5, 20] user "x"
    input %w : f32[1, 4, 1, 1] parameter "w"
    input %r : f32[1, 1, n, 20] user "r"
    %c : f32[1, 1, n + 5, 20] = aten.convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
    %s : f32[1, 1, n, 20]{20*n + 100, 20*n + 100, 20, 1} = aten.slice.Tensor(%c, 2, 0, n) view(0)
    %a : f32[1, 1, n, 20] = aten.add.Tensor(%s, %r)
    %y : f32[1, 1, n, 20] = aten.relu(%a)
    return %y)",
                             {.generate = true})),
            "convolution loop.add.relu");
}

TEST(Convolutions, DoNotEndInAFewOfTheirImages) {
  EXPECT_EQ(tasks_of(lowered(R"(
    symbol n : int
    input %x : f32[n + 2, 16, 20, 20] user "x"
    input %w : f32[32, 16, 3, 3] parameter "w"
    input %r : f32[n, 32, 20, 20] user "r"
    %c : f32[n + 2, 32, 20, 20] = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
    %s : f32[n, 32, 20, 20] = aten.slice.Tensor(%c, 0, 0, n) view(0)
    %a : f32[n, 32, 20, 20] = aten.add.Tensor(%s, %r)
    %y : f32[n, 32, 20, 20] = aten.relu(%a)
    return %y)",
                             {.generate = true})),
            "convolution loop.add.relu");
}

TEST(Convolutions, RunBeforeWhatReadsThemOtherwise) {
  EXPECT_EQ(tasks_of(lowered_convolution(R"(
    %t : f32[2, 32, 20, 20]{12800, 400, 1, 20} = aten.transpose.int(%c, 2, 3) view(0)
    %a : f32[2, 32, 20, 20]{12800, 400, 1, 20} = aten.relu(%t)
    %y : f32[2, 32, 20, 20]{12800, 400, 1, 20} = aten.tanh(%a)
    return %y)")),
            "convolution loop.relu.tanh");
}

TEST(Convolutions, LeaveSumsOverRows) {
  EXPECT_EQ(tasks_of(lowered_convolution(R"(
    %y : f32[2, 32, 20, 20] = aten._softmax(%c, 3, false)
    return %y)")),
            "convolution loop._softmax");
}

TEST(Convolutions, OfOtherPlacesOfTheirSpaceStayApart) {
  const program::Program program = lowered_convolution(R"(
    %p : f32[2, 32, 20, 20]{12800, 400, 1, 20} = aten.transpose.int(%r, 2, 3) view(0)
    %a : f32[2, 32, 20, 20] = aten.add.Tensor(%c, %p)
    return %a)");
  EXPECT_EQ(program.tasks.front().name, "convolution");
  EXPECT_EQ(program.tasks.size(), 2u);
}

TEST(Convolutions, WithRowsOfTheirOwnRunBefore) {
  EXPECT_EQ(tasks_of(lowered(R"(
    input %s : f32[20, 1] user "s")" +
                                 std::string(kConvolution) + R"(
    %a : f32[2, 32, 20, 20] = aten.mul.Tensor(%c, %s)
    %y : f32[2, 32, 20, 20] = aten.relu(%a)
    return %y)",
                             {.generate = true})),
            "convolution loop.mul.relu");
}

TEST(Convolutions, DoNotMoveBehindWritesOfWhatTheyRead) {
  EXPECT_EQ(tasks_of(lowered_convolution(R"(
    %u : f32[2, 16, 20, 20] = aten.mul_.Tensor(%x, 2)
    %y : f32[2, 32, 20, 20] = aten.relu(%c)
    return %y)"))
                .substr(0, 12),
            "convolution ");
}

constexpr const char* kChannelsLast = R"(
    input %x : f32[2, 16, 20, 20]{6400, 1, 320, 16} user "x"
    input %w : f32[16, 1, 3, 3] parameter "w"
    input %b : f32[16] parameter "b"
    %c : f32[2, 16, 18, 18]{5184, 1, 288, 16} = aten.convolution(%x, %w, %b, [1, 1], [0, 0], [1, 1], false, [0, 0], 16)
    )";

TEST(Convolutions, DepthwiseOnesMayHaveChannelsLast) {
  const program::Program program = lowered(std::string(kChannelsLast) + "return %c", {.generate = true});
  ASSERT_EQ(tasks_of(program), "convolution");
  EXPECT_EQ(task_text(program.tasks[0]),
            "npugraph.convolution 1 bias channels_last groups 16 stride 1 1 padding 0 0 dilation 1 1");
}

TEST(Convolutions, OfChannelsLastTakeWhatFollows) {
  EXPECT_EQ(tasks_of(lowered(std::string(kChannelsLast) + R"(
    %a : f32[2, 16, 18, 18]{5184, 1, 288, 16} = aten.mul.Tensor(%c, 2)
    %y : f32[2, 16, 18, 18]{5184, 1, 288, 16} = aten.relu(%a)
    return %y)",
                             {.generate = true})),
            "convolution.convolution.mul.relu");
}

TEST(Convolutions, OfChannelsLastRunBeforeWhatIsContiguous) {
  EXPECT_EQ(tasks_of(lowered(std::string(kChannelsLast) + R"(
    input %r : f32[2, 16, 18, 18] user "r"
    %a : f32[2, 16, 18, 18] = aten.add.Tensor(%r, %c)
    return %a)",
                             {.generate = true}))
                .substr(0, 12),
            "convolution ");
}

std::string tasks_of_groups(const std::string& weights, const std::string& rest) {
  return tasks_of(lowered(R"(
    input %x : f32[1, 16, 20, 20] user "x"
    input %w : f32)" + weights +
                              R"( parameter "w"
    %c : f32[1, 16, 18, 18] = aten.convolution(%x, %w, none, [1, 1], [0, 0], [1, 1], )" +
                              rest + "\nreturn %c",
                          {.generate = true}));
}

TEST(Convolutions, OfAnyGroupsAreGenerated) {
  EXPECT_EQ(tasks_of_groups("[16, 1, 3, 3]", "false, [0, 0], 16)"), "convolution");
  EXPECT_EQ(tasks_of_groups("[16, 4, 3, 3]", "false, [0, 0], 4)"), "convolution");
  EXPECT_EQ(tasks_of_groups("[16, 8, 3, 3]", "false, [0, 0], 2)"), "convolution");
}

std::string attention(const std::string& arguments, const std::string& returned = "%o",
                      const std::string& queries = "f32[1, 6, 5, 64]", const std::string& keys = "f32[1, 2, 7, 64]",
                      const std::string& results = "f32[1, 6, 5, 64]{1920, 64, 384, 1}, f32[1, 6, 5]{30, 1, 6}") {
  return "  input %q : " + queries + " user \"q\"\n  input %k : " + keys + " user \"k\"\n  input %v : " + keys +
         " user \"v\"\n  input %m : f32[5, 7] user \"m\"\n  input %b : f32[1, 1, 1, 7] user \"b\"\n  %o, %l : " +
         results + " = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v" + arguments + ")\n  return " +
         returned;
}

// The text of the only task; empty if it is not an attention task.
std::string attention_text(const std::string& graph, bool generate = true) {
  const program::Program program = lowered(graph, {.generate = generate});
  EXPECT_EQ(program.tasks.size(), 1U);
  const program::Task& task = program.tasks.front();
  return task.kind == program::TaskKind::kAttention ? std::get<std::string>(task.args.front()) : "";
}

TEST(LowerAttention, WritesWhatTheOperatorAsksFor) {
  EXPECT_EQ(attention_text(attention("")), "npugraph.attention 1");
  EXPECT_EQ(attention_text(attention(", 0.0, true")), "npugraph.attention 1 after 0");
  EXPECT_EQ(attention_text(attention(", attn_mask=%m, scale=0.25")), "npugraph.attention 1 mask scale 0.25");
  EXPECT_EQ(attention_text(attention("", "%o, %l")), "npugraph.attention 1 logsumexp");
  EXPECT_EQ(attention_text(attention("", "%l")), "npugraph.attention 1 logsumexp");
}

TEST(LowerAttention, ReadsHeadsAndMaskAsTheyAre) {
  const program::Program program = lowered(attention(", attn_mask=%b"), {.generate = true});
  const auto& operands = program.tasks.front().operands;
  ASSERT_EQ(operands.size(), 5U);
  EXPECT_EQ(operands[1].sizes[1].constant, 2);
  EXPECT_EQ(operands[3].sizes[2].constant, 1);
  EXPECT_EQ(operands[4].access, program::Access::kWrite);
  EXPECT_EQ(operands[4].strides[2].constant, 384);
}

TEST(LowerAttention, LeavesOthersToTheHost) {
  EXPECT_EQ(attention_text(attention(""), false), "");
  EXPECT_EQ(attention_text(attention(", 0.5")), "");
  const std::string results = "f64[1, 6, 5, 64]{1920, 64, 384, 1}, f64[1, 6, 5]{30, 1, 6}";
  EXPECT_EQ(attention_text(attention("", "%o", "f64[1, 6, 5, 64]", "f64[1, 2, 7, 64]", results)), "");
}

}  // namespace

}  // namespace npugraph::lower
