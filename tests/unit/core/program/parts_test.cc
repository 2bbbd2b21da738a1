// SPDX-License-Identifier: Apache-2.0
#include "program/parts.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "program/text.h"

namespace npugraph::program {
namespace {

Operand window(int32_t buffer, Access access) {
  return {.buffer = buffer, .access = access, .sizes = {{4}}, .strides = {{1}}};
}

// A task that reads buffer `from` and writes buffer `to`, which may share its memory.
Task step(std::string name, int32_t from, int32_t to) {
  return {.kind = TaskKind::kLoop,
          .name = std::move(name),
          .operands = {window(from, Access::kRead), window(to, Access::kWrite)},
          .args = {std::string("text of ") + std::to_string(from), Expr::symbol("s0")},
          .scalars = {0},
          .may_share = {{.written = 1, .read = 0}},
          .origin = "node" + std::to_string(to),
          .source = "model.py:" + std::to_string(to)};
}

Task copy(int32_t from, int32_t to) {
  return {.kind = TaskKind::kKernel,
          .name = "kernel.copy",
          .operands = {window(from, Access::kRead), window(to, Access::kWrite)},
          .args = {TensorRef{0}}};
}

std::vector<Task> parts() { return {step("loop.neg", 0, 1), copy(1, 2), step("loop.abs", 2, 3)}; }

TEST(SuperKernel, IsItsPartsInOrder) {
  const Task merged = super_kernel(parts(), "block", 2);
  EXPECT_EQ(merged.kind, TaskKind::kSuperKernel);
  EXPECT_EQ(merged.name, "super_kernel.block");
  EXPECT_EQ(merged.origin, "node1, node3");
  EXPECT_EQ(merged.source, "model.py:1");
  EXPECT_EQ(merged.operands.size(), 6u);
  EXPECT_EQ(merged.scalars, (std::vector<int32_t>{0, 0}));
  const Parts back = parts_of(merged);
  EXPECT_EQ(back.workers, 2);
  ASSERT_EQ(back.tasks.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(back.tasks[i].kind, parts()[i].kind);
    EXPECT_EQ(back.tasks[i].name, parts()[i].name);
    EXPECT_EQ(back.tasks[i].args, parts()[i].args);
    EXPECT_EQ(back.tasks[i].scalars, parts()[i].scalars);
    EXPECT_EQ(back.tasks[i].origin, parts()[i].origin);
    EXPECT_EQ(back.tasks[i].source, parts()[i].source);
    EXPECT_EQ(back.tasks[i].operands[0].buffer, parts()[i].operands[0].buffer);
  }
}

// Buffer 0 dies in the first part and buffer 1 is new there.
TEST(SuperKernel, KeepsInPlaceResultsThatNoOtherPartMeets) {
  const Task merged = super_kernel(parts(), "block", 0);
  ASSERT_EQ(merged.may_share.size(), 2u);
  EXPECT_EQ(merged.may_share[0].written, 1);
  EXPECT_EQ(merged.may_share[1].written, 5);
  EXPECT_EQ(merged.may_share[1].read, 4);
  // No sharing: a later part reads the operand, or an earlier part writes the result.
  EXPECT_TRUE(super_kernel(std::vector{step("loop.a", 0, 1), copy(0, 2)}, "s", 0).may_share.empty());
  EXPECT_TRUE(super_kernel(std::vector{copy(0, 3), step("loop.a", 2, 3)}, "s", 0).may_share.empty());
}

TEST(Group, IsItsPartsWithTheirTimes) {
  const std::vector<Task> apart = {step("loop.neg", 0, 1), step("loop.neg", 2, 3), copy(4, 5)};
  const Task merged = group(apart, {10, 20, 30});
  EXPECT_EQ(merged.kind, TaskKind::kGroup);
  EXPECT_EQ(merged.name, "group.2x_loop.neg.kernel.copy");
  const Parts back = parts_of(merged);
  EXPECT_EQ(back.nanoseconds, (std::vector<int64_t>{10, 20, 30}));
  ASSERT_EQ(back.tasks.size(), 3u);
  EXPECT_EQ(back.tasks[1].args, apart[1].args);
  EXPECT_EQ(back.tasks[1].operands[1].buffer, 3);
  EXPECT_EQ(merged.may_share.size(), 2u);
  // All parts run at once, so an operand that two of them read lives as long as both.
  EXPECT_TRUE(group(std::vector{copy(0, 2), step("loop.a", 0, 1)}, {1, 1}).may_share.empty());
  Task bad = merged;
  bad.args[1] = std::vector<Expr>{10, 20};
  EXPECT_THROW(parts_of(bad), UserError);
  bad.args[1] = std::vector<Expr>{10, 20, -1};
  EXPECT_THROW(parts_of(bad), UserError);
}

TEST(SuperKernel, PartsNeitherAllocateNorDefine) {
  EXPECT_TRUE(can_be_part(step("loop.a", 0, 1)));
  EXPECT_TRUE(can_be_part(copy(0, 1)));
  EXPECT_FALSE(can_be_part(Task{.kind = TaskKind::kAten}));
  EXPECT_FALSE(can_be_part(Task{.kind = TaskKind::kPython}));
  EXPECT_FALSE(can_be_part(super_kernel(parts(), "block", 0)));
  EXPECT_FALSE(can_be_part(Task{.kind = TaskKind::kLoop, .defines = {{.symbol = 0}}}));
}

// Programs are read from files, so the arguments of a super kernel may be wrong.
TEST(SuperKernel, RefusesWhatIsNone) {
  const Task good = super_kernel(parts(), "block", 0);
  for (size_t cut = 0; cut < good.args.size(); ++cut) {
    Task bad = good;
    bad.args.resize(cut);
    EXPECT_THROW(parts_of(bad), UserError) << cut;
  }
  for (size_t i = 0; i < good.args.size(); ++i) {
    Task bad = good;
    bad.args[i] = TensorRef{5};
    if (i < 7) {
      EXPECT_THROW(parts_of(bad), UserError) << i;
    }
  }
  const auto with = [&](size_t position, Attr arg) {
    Task bad = good;
    bad.args[position] = std::move(arg);
    return bad;
  };
  EXPECT_THROW(parts_of(with(1, Expr(-1))), UserError);
  EXPECT_THROW(parts_of(with(2, std::vector<std::string>{"loop", "aten", "loop"})), UserError);
  EXPECT_THROW(parts_of(with(2, std::vector<std::string>{"loop", "loop"})), UserError);
  EXPECT_THROW(parts_of(with(6, std::vector<Expr>{2, 2, 2, 1, 9, 2})), UserError);
  EXPECT_THROW(parts_of(with(6, std::vector<Expr>{2, 2, 2, 1, -1, 2})), UserError);
  EXPECT_THROW(parts_of(with(6, std::vector<Expr>{2, 2, 1, 1, 2, 2})), UserError);
  EXPECT_THROW(parts_of(with(9, TensorRef{0})), UserError);  // an operand of another part
}

TEST(SuperKernel, IsAStepForEachOfItsParts) {
  Program program;
  program.buffers.resize(6, {.first_task = 1, .last_task = 1});
  program.buffers[0].first_task = 0;
  program.buffers[3].last_task = 2;
  program.buffers[4].first_task = program.buffers[4].last_task = 2;
  program.buffers[5].first_task = program.buffers[5].last_task = kNone;
  program.buffers[0].last_task = 2;  // returned
  program.tasks = {copy(0, 0), super_kernel(parts(), "block", 0), copy(3, 4)};
  const Steps steps = steps_of(program);
  const auto pairs = [](const std::vector<Lifetime>& lives) {
    std::vector<std::pair<int32_t, int32_t>> out;
    for (const Lifetime& life : lives) out.emplace_back(life.first, life.last);
    return out;
  };
  using Pairs = std::vector<std::pair<int32_t, int32_t>>;
  EXPECT_EQ(pairs(steps.of_task), (Pairs{{0, 0}, {1, 3}, {4, 4}}));
  EXPECT_EQ(pairs(steps.of_buffer), (Pairs{{0, 4}, {1, 2}, {2, 3}, {3, 4}, {4, 4}, {-1, -1}}));
}

TEST(Group, IsOneStep) {
  Program program;
  program.buffers.resize(4, {.first_task = 0, .last_task = 0});
  program.tasks = {group(std::vector{copy(0, 1), copy(2, 3)}, {1, 1})};
  const Steps steps = steps_of(program);
  EXPECT_EQ(steps.of_task[0].last, 0);
  for (const Lifetime& life : steps.of_buffer) EXPECT_EQ(std::pair(life.first, life.last), std::pair(0, 0));
}

}  // namespace
}  // namespace npugraph::program
