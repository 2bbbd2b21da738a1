// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/plan.h"
#include "program/random_program.h"
#include "program/text.h"

namespace npugraph::plan {
namespace {

using program::BufferClass;
using program::kNone;
using program::Program;

// Tasks of two streams; buffer 1 is made in stream 0 and read in stream 1. `waits` are those of the reader.
std::string two_streams(const std::string& waits, const std::string& lives = "live(0, 3)") {
  return R"(npugraph.program 4 @two {
  buffer b0 input(0) bytes(32) live(0, 3)
  buffer b1 arena bytes(32) )" +
         lives + R"(
  buffer b2 output bytes(32) live(1, 3)
  buffer b3 arena bytes(32) live(2, 3)
  buffer b4 output bytes(32) live(3, 3)
  input 0 "x" b0 : f32[8]{1}
  task 0 kernel "a" {
    read b0+0 : f32[8]{1}
    write b1+0 : f32[8]{1}
    args(%0)
  }
  task 1 kernel "b" stream(1))" +
         waits + R"( {
    read b1+0 : f32[8]{1}
    write b2+0 : f32[8]{1}
    args(%0)
  }
  task 2 kernel "c" {
    read b0+0 : f32[8]{1}
    write b3+0 : f32[8]{1}
    args(%0)
  }
  task 3 kernel "d" {
    read b3+0 : f32[8]{1}
    write b4+0 : f32[8]{1}
    args(%0)
  }
  segment 4
  output tensor b2+0 : f32[8]{1}
  output tensor b4+0 : f32[8]{1}
})";
}

TEST(Strands, ALifeEndsWhenNoStreamCanBeBehind) {
  Program program = program::parse(two_streams(" waits(0)"), "test");
  plan(program);
  EXPECT_EQ(program.buffers[1].last_task, 3) << "task 3 may run before task 1 has read it";
  program.tasks[3].waits = {1};
  plan(program);
  EXPECT_EQ(program.buffers[1].last_task, 2) << "task 3 comes after task 1";
}

TEST(Strands, AProgramWhoseStrandsShareMemoryIsRefused) {
  EXPECT_THROW(program::parse(two_streams(" waits(0)", "live(0, 1)"), "test"), UserError);
  try {
    program::parse(two_streams(" waits(0)", "live(0, 1)"), "test");
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("buffer 1: its life ends with task 1, and task 3 runs beside"),
              std::string::npos)
        << error.what();
  }
}

TEST(Strands, WaitsThatOthersImplyGo) {
  Program program = program::parse(two_streams(" waits(0)"), "test");
  program.tasks[2].stream = 2;
  program.tasks[2].waits = {0, 1};
  program.tasks[3].waits = {1, 2};
  plan(program);
  EXPECT_EQ(program.tasks[1].waits, std::vector<int32_t>{0});
  EXPECT_EQ(program.tasks[2].waits, std::vector<int32_t>{1});
  EXPECT_EQ(program.tasks[3].waits, std::vector<int32_t>{2});
  EXPECT_EQ(program::print(program::parse(program::print(program), "again")), program::print(program));
}

TEST(Strands, AWaitNamesAnEarlierTaskOfAnotherStream) {
  for (const std::string waits : {" waits(2)", " waits(1)"}) {
    EXPECT_THROW(program::parse(two_streams(waits), "test"), UserError) << waits;
  }
}

// A Program whose tasks are distributed over streams at random, with some waits.
Program in_strands(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int32_t below) { return std::uniform_int_distribution<int32_t>(0, below - 1)(random); };
  Program program = program::testing::RandomProgram(seed, {.tasks = 24}).unplanned();
  const int32_t streams = 2 + pick(3);
  for (auto& task : program.tasks) task.stream = pick(streams);
  for (int32_t t = 1; t < static_cast<int32_t>(program.tasks.size()); ++t) {
    for (int i = pick(3); i > 0; --i) {
      const int32_t other = pick(t);
      auto& waits = program.tasks[t].waits;
      const bool known = std::ranges::find(waits, other) != waits.end();
      if (!known && program.tasks[other].stream != program.tasks[t].stream) waits.push_back(other);
    }
    std::ranges::sort(program.tasks[t].waits);
  }
  return program;
}

// Which tasks come before each task, computed anew from streams and waits.
std::vector<std::vector<bool>> reachable(const Program& program) {
  const size_t count = program.tasks.size();
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count, false));
  for (size_t t = 0; t < count; ++t) {
    const auto& waits = program.tasks[t].waits;
    for (size_t other = 0; other < t; ++other) {
      const bool waited = std::ranges::find(waits, static_cast<int32_t>(other)) != waits.end();
      if (!waited && program.tasks[other].stream != program.tasks[t].stream) continue;
      before[t][other] = true;
      for (size_t i = 0; i < other; ++i) before[t][i] = before[t][i] || before[other][i];
    }
  }
  return before;
}

std::vector<size_t> touching(const Program& program, size_t buffer) {
  std::vector<size_t> tasks;
  for (size_t t = 0; t < program.tasks.size(); ++t) {
    const auto is_it = [&](const program::Operand& operand) { return operand.buffer == static_cast<int32_t>(buffer); };
    if (std::ranges::any_of(program.tasks[t].operands, is_it)) tasks.push_back(t);
  }
  return tasks;
}

// Buffers whose lives do not overlap may share memory. Checks that every task of the earlier buffer comes before every
// task of the later one.
void expect_no_shared_memory(const Program& program) {
  const auto before = reachable(program);
  for (size_t a = 0; a < program.buffers.size(); ++a) {
    for (size_t b = 0; b < program.buffers.size(); ++b) {
      const auto &first = program.buffers[a], &second = program.buffers[b];
      const bool in_arena = first.cls == BufferClass::kArena && second.cls == BufferClass::kArena;
      if (!in_arena || first.last_task == kNone || first.last_task >= second.first_task) continue;
      for (const size_t early : touching(program, a)) {
        for (const size_t late : touching(program, b)) EXPECT_TRUE(before[late][early]) << early << " " << late;
      }
    }
  }
}

TEST(Strands, RandomProgramsShareNoMemoryBetweenTasksThatRunAtOnce) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Program program = in_strands(seed);
    plan(program);  // verifies
    SCOPED_TRACE(seed);
    expect_no_shared_memory(program);
    const std::string once = program::print(program);
    plan(program);
    EXPECT_EQ(program::print(program), once);
  }
}

}  // namespace
}  // namespace npugraph::plan
