// SPDX-License-Identifier: Apache-2.0
#include "lower/groups.h"

#include "lower/lower_testing.h"
#include "program/parts.h"

namespace npugraph::lower {
namespace {

using program::Access;
using program::BufferClass;
using program::Operand;
using program::Task;
using program::TaskKind;

// A Program of tasks over buffers of `elements` elements of f32; all buffers are in the arena but the first, an input.
struct Tasks {
  explicit Tasks(int64_t elements = 1024) : elements(elements) {}

  Operand window(int32_t buffer, Access access) {
    while (std::ssize(program.buffers) <= buffer)
      program.buffers.push_back({.cls = program.buffers.empty() ? BufferClass::kInput : BufferClass::kArena});
    return {.buffer = buffer, .access = access, .sizes = {{elements}}, .strides = {{1}}};
  }

  Task& add(std::string name, std::vector<int32_t> reads, int32_t writes, TaskKind kind = TaskKind::kLoop) {
    Task task{.kind = kind, .name = std::move(name), .args = {std::string("text")}, .origin = "n"};
    for (const int32_t read : reads) task.operands.push_back(window(read, Access::kRead));
    task.operands.push_back(window(writes, Access::kWrite));
    program.tasks.push_back(std::move(task));
    notes.push_back({.node = static_cast<ir::NodeId>(notes.size()), .saved_bytes = 1, .operations = operations});
    return program.tasks.back();
  }

  std::string grouped() {
    groupings = group_tasks(program, notes, target::Target{});
    EXPECT_EQ(notes.size(), program.tasks.size());
    return tasks_of(program);
  }

  int64_t elements;
  int64_t operations = 8192;  // of each task
  program::Program program;
  std::vector<TaskNote> notes;
  std::vector<Grouping> groupings;
};

TEST(GroupTasks, BranchesAreGroupedLevelByLevel) {
  Tasks tasks;
  for (int branch = 0; branch < 3; ++branch) {
    const int first = 1 + 2 * branch;
    tasks.add("a", {0}, first);
    tasks.add("b", {first}, first + 1);
  }
  EXPECT_EQ(tasks.grouped(), "group.3x_a group.3x_b");
  ASSERT_EQ(tasks.groupings.size(), 2u);
  EXPECT_EQ(tasks.groupings[0].tasks, "3x_a");
  EXPECT_STREQ(tasks.groupings[0].reason, "");
  EXPECT_GT(tasks.groupings[0].saved_ns, 0);
  const program::Parts parts = program::parts_of(tasks.program.tasks[1]);
  EXPECT_EQ(parts.tasks[2].operands[0].buffer, 5);
  EXPECT_GT(parts.nanoseconds[2], 0);
  EXPECT_EQ(tasks.notes[0].saved_bytes, 3);
  EXPECT_EQ(tasks.notes[0].operations, 3 * 8192);
}

TEST(GroupTasks, ChainsStay) {
  Tasks tasks;
  tasks.add("a", {0}, 1);
  tasks.add("b", {1}, 2);
  tasks.add("c", {2}, 1);  // writes what b reads
  tasks.add("d", {0}, 1);  // writes what c writes
  EXPECT_EQ(tasks.grouped(), "a b c d");
  EXPECT_TRUE(tasks.groupings.empty());
}

TEST(GroupTasks, PartsOfAConcatenationAreApart) {
  Tasks tasks;
  for (int64_t part = 0; part < 4; ++part)
    tasks.add("a", {0}, 1).operands.back().byte_offset = {part * tasks.elements * 4};
  EXPECT_EQ(tasks.grouped(), "group.4x_a");
}

TEST(GroupTasks, TinyTasksAreNotWorthAThread) {
  Tasks tasks(16);
  tasks.operations = 16;
  tasks.add("a", {0}, 1);
  tasks.add("a", {0}, 2);
  EXPECT_EQ(tasks.grouped(), "a a");
  ASSERT_EQ(tasks.groupings.size(), 1u);
  EXPECT_STREQ(tasks.groupings[0].reason, "starting the threads once saves too little");
}

TEST(GroupTasks, LargeTasksFillAllThreadsAlone) {
  Tasks tasks;
  tasks.operations = int64_t{1} << 30;
  for (int i = 1; i < 5; ++i) tasks.add("a", {0}, i);
  EXPECT_EQ(tasks.grouped(), "a a a a");
  EXPECT_TRUE(tasks.groupings.empty());
}

TEST(GroupTasks, NothingMovesOverTheHost) {
  Tasks tasks;
  for (int i = 1; i < 4; ++i) tasks.add("a", {0}, i);
  tasks.add("aten.topk", {0}, 9, TaskKind::kAten);
  for (int i = 4; i < 7; ++i) tasks.add("a", {0}, i);
  EXPECT_EQ(tasks.grouped(), "group.3x_a aten.topk group.3x_a");
}

TEST(GroupTasks, WritesForTheCallerStayBehindWhatMayFail) {
  Tasks tasks;
  for (int i = 1; i < 4; ++i) tasks.add("a", {0}, i);
  tasks.add("kernel.embedding", {0}, 9, TaskKind::kKernel);
  tasks.notes.back().may_fail = true;
  tasks.add("w", {4}, 0);
  tasks.add("a", {8}, 7);
  EXPECT_EQ(tasks.grouped(), "group.3x_a kernel.embedding group.w.a");
}

TEST(GroupTasks, TasksThatMayFailAreNoParts) {
  Tasks tasks;
  for (int i = 1; i < 5; ++i) {
    tasks.add("a", {0}, i);
    tasks.notes.back().may_fail = true;
  }
  EXPECT_EQ(tasks.grouped(), "a a a a");
}

TEST(GroupTasks, SymbolsFollowTheirTasks) {
  Tasks tasks;
  for (int i = 1; i < 5; ++i) tasks.add("a", {0}, i);
  tasks.add("aten.nonzero", {0}, 9, TaskKind::kAten).defines = {{.symbol = 0}};
  tasks.program.symbols = {{.name = "u0", .task = 4}};
  EXPECT_EQ(tasks.grouped(), "group.4x_a aten.nonzero");
  EXPECT_EQ(tasks.program.symbols[0].task, 1);
}

TEST(GroupTasks, NoTaskTakesNegativeTime) {
  Tasks tasks;
  for (int i = 1; i < 5; ++i) tasks.add("a", {0}, i);
  const Expr rest = Expr::symbol("s0") - Expr(2) * Expr::symbol("s1");  // negative if both symbols have one value
  tasks.notes[3].operations = rest * Expr(8192);
  for (Operand& operand : tasks.program.tasks[3].operands) operand.sizes = {tasks.program.dim(rest * Expr(1024))};
  EXPECT_EQ(tasks.grouped(), "group.4x_a");
  EXPECT_GE(program::parts_of(tasks.program.tasks[0]).nanoseconds[3], 0);
}

TEST(GroupTasks, StreamsAlreadyRunAtTheSameTime) {
  Tasks tasks;
  for (int i = 1; i < 5; ++i) tasks.add("a", {0}, i).stream = i % 2;
  EXPECT_EQ(tasks.grouped(), "a a a a");
}

}  // namespace
}  // namespace npugraph::lower
