// SPDX-License-Identifier: Apache-2.0
// Sections become the streams and waits of tasks.
#include "lower/waits.h"

#include <string>

#include <gtest/gtest.h>

#include "lower/lower_testing.h"

namespace npugraph::lower {

namespace {

using program::Program;

// "stream <- waits, ..." of each task.
std::string edges_of(const Program& program) {
  std::string text;
  for (const program::Task& task : program.tasks) {
    text += (text.empty() ? "" : ", ") + std::to_string(task.stream);
    for (const int32_t other : task.waits) text += " <- " + std::to_string(other);
  }
  return text;
}

TEST(Sections, EventsBecomeWaits) {
  EXPECT_EQ(edges_of(lowered(R"(
    section 0 stream(0)
    section 1 stream(1)
    section 2 stream(0) after(1)
    input %x : f32[4]
    %a : f32[4] = aten.neg(%x)
    %b : f32[4] = aten.abs(%x) section(1)
    %c : f32[4] = aten.add.Tensor(%a, %b) section(2)
    return %c)")),
            "0, 1, 0 <- 1");
}

// The wait for a collective comes right before the first task that needs its result. Other tasks of that section run
// before the wait.
TEST(Sections, CollectivesAreAwaitedWhereTheirResultsAreRead) {
  const Program program = lowered(R"(
    section 0 stream(0)
    section 1 stream(1)
    section 2 stream(0) after(1)
    input %x : f32[4] user "x"
    %r : f32[4] = npugraph.all_reduce([%x], "sum", "0", [0, 1]) section(1)
    %a : f32[4] = aten.neg(%x) section(2)
    %c : f32[4] = aten.add.Tensor(%r, %a) section(2)
    return %c)");
  EXPECT_EQ(tasks_of(program), "npugraph.all_reduce kernel.unary_neg npugraph.wait kernel.binary_add");
  EXPECT_EQ(edges_of(program), "1, 0 <- 0, 0, 0");
}

TEST(Sections, WithoutAnEventNothingWaits) {
  EXPECT_EQ(edges_of(lowered(R"(
    section 0 stream(0)
    section 1 stream(1)
    input %x : f32[4]
    %b : f32[4] = aten.abs(%x) section(1)
    %c : f32[4] = aten.neg(%b)
    return %c)")),
            "1, 0");
}

// Stream 2 has no tasks of its own between the two events.
TEST(Sections, EventsReachThroughSectionsWithoutTasks) {
  EXPECT_EQ(edges_of(lowered(R"(
    section 0 stream(1)
    section 1 stream(2) after(0)
    section 2 stream(0) after(1)
    section 3 stream(0)
    input %x : f32[4]
    %a : f32[4] = aten.neg(%x)
    %b : f32[4] = aten.abs(%x) section(3)
    %c : f32[4] = aten.add.Tensor(%a, %b) section(3)
    return %c)")),
            "1, 0 <- 0, 0");
}

TEST(Sections, ClustersEndAtEvents) {
  const auto tasks = [](const std::string& section) {
    return tasks_of(lowered(R"(
      section 0 stream(0)
      section 1 stream(0)
      section 2 stream(1)
      input %x : f32[400, 400]
      %a : f32[400, 400] = aten.neg(%x)
      %b : f32[400, 400] = aten.abs(%a))" +
                                section + "\nreturn %b",
                            {.generate = true}));
  };
  EXPECT_EQ(tasks(""), "loop.neg.abs");
  EXPECT_EQ(tasks(" section(1)"), "loop.neg loop.abs");
  EXPECT_EQ(tasks(" section(2)"), "loop.neg loop.abs");
}

TEST(Sections, ProductsTakeNothingFromOtherSections) {
  const auto tasks = [](const std::string& section) {
    return tasks_of(lowered(R"(
      section 0 stream(0)
      section 1 stream(1) after(0)
      input %x : f32[256, 256]
      input %w : f32[256, 256]
      %a : f32[256, 256] = aten.mm(%x, %w)
      %b : f32[256, 256] = aten.relu(%a))" +
                                section + "\nreturn %b",
                            {.generate = true}));
  };
  EXPECT_EQ(tasks(""), "matmul.mm.relu");
  EXPECT_EQ(tasks(" section(1)").substr(0, 9), "matmul.mm");
  EXPECT_NE(tasks(" section(1)"), "matmul.mm.relu");
}

TEST(Sections, LimitsAreThoseOfTasks) {
  const Program program = lowered(R"(
    section 0 stream(0)
    section 1 stream(0) limits(1, 2)
    input %x : f32[4]
    %a : f32[4] = aten.neg(%x)
    %b : f32[4] = aten.abs(%a) section(1)
    return %b)");
  EXPECT_EQ(program.tasks[0].limits, CoreLimits{});
  EXPECT_EQ(program.tasks[1].limits, (CoreLimits{.cube = 1, .vector = 2}));
  EXPECT_EQ(edges_of(program), "0, 0");
}

TEST(Sections, RandomOperatorsKeepTheirOrder) {
  EXPECT_EQ(edges_of(lowered(R"(
    section 0 stream(0)
    section 1 stream(1)
    input %x : f32[4]
    %a : f32[4] = aten.bernoulli.p(%x, 0.5)
    %b : f32[4] = aten.bernoulli.p(%x, 0.5) section(1)
    %c : f32[4] = aten.neg(%x) section(1)
    return %a, %b, %c)")),
            "0, 1 <- 0, 1");
}

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
