// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lower/lower_testing.h"

namespace npugraph::lower {
namespace {

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
