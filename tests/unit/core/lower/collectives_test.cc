// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gtest/gtest.h>

#include "lower/lower_testing.h"

namespace npugraph::lower {
namespace {

constexpr const char* kReduced =
    "  input %x : f32[4] user \"x\"\n  input %y : f32[4] user \"y\"\n"
    "  %r : f32[4] = npugraph.all_reduce([%x], \"sum\", \"0\", [0, 1])\n";

TEST(LowerCollectives, WaitWhereTheResultIsNeeded) {
  const auto program = lowered(std::string(kReduced) +
                               "  %a : f32[4] = aten.exp(%y)\n  %b : f32[4] = aten.mul.Tensor(%r, %a)\n  return %b");
  EXPECT_EQ(tasks_of(program), "npugraph.all_reduce aten.exp.out npugraph.wait kernel.binary_mul");
  const program::Task& begin = program.tasks[0];
  const program::Task& wait = program.tasks[2];
  EXPECT_EQ(begin.kind, program::TaskKind::kCollective);
  ASSERT_EQ(begin.operands.size(), 3U);
  ASSERT_EQ(wait.operands.size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(begin.operands[i].buffer, wait.operands[i].buffer);
  EXPECT_TRUE(program.buffers[wait.operands[2].buffer].opaque);
  EXPECT_EQ(wait.operands[1].access, program::Access::kReadWrite);
}

TEST(LowerCollectives, WaitBeforeTheEnd) {
  const auto program = lowered(std::string(kReduced) + "  %a : f32[4] = aten.exp(%y)\n  return %r, %a");
  EXPECT_EQ(tasks_of(program), "npugraph.all_reduce aten.exp.out npugraph.wait");
}

TEST(LowerCollectives, WaitBeforeTheirInputIsWritten) {
  const auto program = lowered(
      "  input %x : f32[4] user \"x\"\n  %y : f32[4] = aten.exp(%x)\n"
      "  %r : f32[4] = npugraph.all_reduce([%y], \"sum\", \"0\", [0, 1])\n"
      "  %z : f32[4] = aten.cos_(%y)\n  return %r, %z");
  EXPECT_EQ(tasks_of(program), "aten.exp.out npugraph.all_reduce npugraph.wait aten.cos_");
}

TEST(LowerCollectives, WaitBeforeAnErrorWouldComeTooLate) {
  const auto program = lowered(std::string(kReduced) + "  %z : f32[4] = aten.cos_(%y)\n  return %r");
  EXPECT_EQ(tasks_of(program), "npugraph.all_reduce npugraph.wait aten.cos_");
}

TEST(LowerCollectives, BeginInProgramOrderBesideEachOther) {
  const auto program = lowered(std::string(kReduced) +
                               "  %s : f32[8] = npugraph.all_gather([%y], \"0\", [0, 1])\n"
                               "  npugraph.send(%y, 1, 0, \"0\", [0, 1])\n  return %s, %r");
  EXPECT_EQ(tasks_of(program),
            "npugraph.all_reduce npugraph.all_gather npugraph.send npugraph.wait npugraph.wait npugraph.wait");
}

}  // namespace
}  // namespace npugraph::lower
