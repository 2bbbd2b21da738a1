// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include <gtest/gtest.h>

#include "program/random_program.h"
#include "program/text.h"

namespace npugraph::plan {
namespace {

using program::Access;
using program::Buffer;
using program::BufferClass;
using program::Dim;
using program::kNone;
using program::Operand;
using program::Program;

// Builds Programs of f32 vectors, one line per task.
class Builder {
 public:
  Builder() { program_.name = "test"; }

  Expr size_symbol(int32_t input, const std::string& name) {
    program_.symbols.push_back({.name = name, .kind = ScalarKind::kInt, .input = input, .dim = 0, .task = kNone});
    return Expr::symbol(name);
  }
  int32_t input(const Expr& size) {
    const auto index = static_cast<int32_t>(program_.inputs.size());
    const int32_t buffer = this->buffer(BufferClass::kInput, size);
    program_.buffers[buffer].source = index;
    program::Input input;
    input.buffer = buffer;
    input.sizes = {program_.dim(size)};
    input.strides = {Dim{1}};
    program_.inputs.push_back(input);
    return buffer;
  }
  int32_t buffer(BufferClass cls, const Expr& size) {
    Buffer buffer;
    buffer.cls = cls;
    if (cls != BufferClass::kHeap) buffer.bytes = program_.dim(size * Expr(4));
    program_.buffers.push_back(buffer);
    sizes_.push_back(size);
    return static_cast<int32_t>(program_.buffers.size()) - 1;
  }
  // Adds a task that reads `reads` and writes `writes`. With `may_share`, the first result may share memory with any
  // one of the operands that are read.
  program::Task& task(const std::vector<int32_t>& reads, const std::vector<int32_t>& writes, bool may_share = false) {
    program::Task task;
    task.name = "test.op";
    for (const int32_t buffer : reads) task.operands.push_back(window(buffer, Access::kRead));
    for (const int32_t buffer : writes) task.operands.push_back(window(buffer, Access::kWrite));
    if (may_share) {
      for (int32_t i = 0; i < static_cast<int32_t>(reads.size()); ++i) {
        task.may_share.push_back({static_cast<int32_t>(reads.size()), i});
      }
    }
    program_.tasks.push_back(std::move(task));
    return program_.tasks.back();
  }
  Expr defined_symbol(const std::string& name) {  // by the last task
    auto& task = program_.tasks.back();
    task.defines.push_back({static_cast<int32_t>(program_.symbols.size()), kNone, kNone, 0});
    program_.symbols.push_back({.name = name, .task = static_cast<int32_t>(program_.tasks.size()) - 1});
    return Expr::symbol(name);
  }
  void output(int32_t buffer) {
    program::Output output;
    output.kind = program::Output::Kind::kTensor;
    output.tensor = window(buffer, Access::kRead);
    program_.outputs.push_back(output);
  }
  Operand window(int32_t buffer, Access access) {
    Operand operand;
    operand.buffer = buffer;
    operand.access = access;
    operand.sizes = {program_.dim(sizes_[buffer])};
    operand.strides = {Dim{1}};
    return operand;
  }
  Program planned() {
    plan(program_);
    return program_;
  }
  Program& program() { return program_; }

 private:
  Program program_;
  std::vector<Expr> sizes_;
};

std::pair<int32_t, int32_t> life(const Program& program, int32_t buffer) {
  return {program.buffers[buffer].first_task, program.buffers[buffer].last_task};
}
using Life = std::pair<int32_t, int32_t>;

TEST(Plan, EveryUseCountsForLife) {
  Builder b;
  const int32_t x = b.input(8);
  const int32_t t = b.buffer(BufferClass::kArena, 8);
  const int32_t y = b.buffer(BufferClass::kOutput, 8);
  const int32_t unused = b.buffer(BufferClass::kArena, 8);
  b.task({x}, {t});
  b.task({x}, {y});
  b.task({t}, {y});
  b.task({}, {});
  b.output(y);
  const Program program = b.planned();
  EXPECT_EQ(life(program, x), Life(0, 1));
  EXPECT_EQ(life(program, t), Life(0, 2));
  EXPECT_EQ(life(program, y), Life(1, 3)) << "an output lives to the end";
  EXPECT_EQ(life(program, unused), Life(kNone, kNone));
  EXPECT_EQ(program.segments, std::vector<int32_t>{4});
}

TEST(Plan, WrittenInputsAreMarked) {
  Builder b;
  const int32_t x = b.input(8);
  const int32_t cache = b.input(8);
  const int32_t other = b.input(8);
  b.task({x}, {cache});
  b.task({}, {}).operands.push_back(b.window(other, Access::kReadWrite));
  const Program program = b.planned();
  EXPECT_FALSE(program.inputs[0].mutated);
  EXPECT_TRUE(program.inputs[1].mutated);
  EXPECT_TRUE(program.inputs[2].mutated);
}

TEST(Plan, HeapBuffersAreReleasedAfterTheirLastUse) {
  Builder b;
  const int32_t x = b.input(8);
  const int32_t used = b.buffer(BufferClass::kHeap, 8);
  const int32_t ignored = b.buffer(BufferClass::kHeap, 8);
  const int32_t returned = b.buffer(BufferClass::kHeap, 8);
  b.task({x}, {used, ignored});
  b.task({used}, {returned});
  b.output(returned);
  const Program program = b.planned();
  EXPECT_EQ(program.tasks[0].releases, std::vector<int32_t>{ignored});
  EXPECT_EQ(program.tasks[1].releases, std::vector<int32_t>{used});
}

TEST(Plan, LateSizesLeaveTheArena) {
  Builder b;
  const int32_t x = b.input(Expr::symbol("s0"));
  b.size_symbol(0, "s0");
  b.task({x}, {});
  const Expr u0 = b.defined_symbol("u0");
  const int32_t late = b.buffer(BufferClass::kArena, u0 * Expr::symbol("s0"));
  const int32_t early = b.buffer(BufferClass::kArena, Expr::symbol("s0") * Expr(2));
  const int32_t returned = b.buffer(BufferClass::kOutput, u0);
  b.task({x}, {late, early});
  b.task({late, early}, {returned});
  b.output(returned);
  const Program program = b.planned();
  EXPECT_EQ(program.buffers[late].cls, BufferClass::kHeap);
  EXPECT_TRUE(program.buffers[late].preallocated);
  EXPECT_EQ(program.buffers[early].cls, BufferClass::kArena);
  EXPECT_EQ(program.buffers[returned].cls, BufferClass::kOutput);
  EXPECT_EQ(program.segments, (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(program.tasks[2].releases, std::vector<int32_t>{late});
}

TEST(Plan, AProgramWithoutTasksHasOneEmptySegment) {
  Builder b;
  b.output(b.input(8));
  b.program().outputs[0].input = 0;
  EXPECT_EQ(b.planned().segments, std::vector<int32_t>{0});
}

TEST(Plan, AResultTakesTheMemoryOfADyingOperand) {
  Builder b;
  const int32_t x = b.input(8);
  const int32_t t0 = b.buffer(BufferClass::kArena, 8);
  const int32_t t1 = b.buffer(BufferClass::kArena, 8);
  const int32_t t2 = b.buffer(BufferClass::kArena, 8);
  const int32_t y = b.buffer(BufferClass::kOutput, 8);
  b.task({x}, {t0}, true);
  b.task({t0}, {t1}, true);
  b.task({x, t1}, {t2}, true);
  b.task({t2, t2}, {y}, true);
  b.output(y);
  const Program program = b.planned();
  EXPECT_EQ(program.tasks[1].operands[1].buffer, t0);
  EXPECT_EQ(program.tasks[2].operands[1].buffer, t0);
  EXPECT_EQ(program.tasks[2].operands[2].buffer, t0);
  EXPECT_EQ(program.tasks[3].operands[0].buffer, t0);
  EXPECT_EQ(program.tasks[3].operands[2].buffer, y) << "the caller keeps an output";
  EXPECT_EQ(life(program, t0), Life(0, 3));
  EXPECT_EQ(life(program, t1), Life(kNone, kNone));
}

// Sharing would be wrong in each of these cases, or is not worth its bookkeeping.
TEST(Plan, MemoryIsNotShared) {
  const auto shared = [](auto change) {
    Builder b;
    const int32_t x = b.input(8);
    const int32_t from = b.buffer(BufferClass::kArena, 8);
    const int32_t to = b.buffer(BufferClass::kArena, 8);
    const int32_t y = b.buffer(BufferClass::kOutput, 8);
    b.task({x}, {from});
    b.task({from}, {to}, true);
    b.task({to}, {y});
    b.output(y);
    change(b, from, to);
    return b.planned().tasks[1].operands[1].buffer == from;
  };
  EXPECT_TRUE(shared([](Builder&, int32_t, int32_t) {}));
  // The operand is used later.
  EXPECT_FALSE(shared([](Builder& b, int32_t from, int32_t) { b.task({from}, {}); }));
  // The task does not allow it.
  EXPECT_FALSE(shared([](Builder& b, int32_t, int32_t) { b.program().tasks[1].may_share.clear(); }));
  // The task reads another window of the operand's buffer as well.
  EXPECT_FALSE(shared([](Builder& b, int32_t from, int32_t) {
    Operand window = b.window(from, Access::kRead);
    window.byte_offset = {4};
    window.sizes[0] = {7};
    b.program().tasks[1].operands.push_back(window);
  }));
  // The windows differ.
  EXPECT_FALSE(shared([](Builder& b, int32_t, int32_t) { b.program().tasks[1].operands[0].strides[0] = {0}; }));
  EXPECT_FALSE(shared([](Builder& b, int32_t, int32_t) { b.program().tasks[1].operands[0].dtype = DType::kF16; }));
  // The buffers have other sizes.
  EXPECT_FALSE(shared([](Builder& b, int32_t from, int32_t) { b.program().buffers[from].bytes = {64}; }));
  // The result was written before.
  EXPECT_FALSE(shared(
      [](Builder& b, int32_t, int32_t to) { b.program().tasks[0].operands.push_back(b.window(to, Access::kWrite)); }));
  // The task updates the result instead of writing it.
  EXPECT_FALSE(shared([](Builder& b, int32_t, int32_t to) {
    b.program().tasks[0].operands.push_back(b.window(to, Access::kWrite));
    b.program().tasks[1].operands[1].access = Access::kReadWrite;
  }));
}

// They do not take the memory of the same operand, even if nobody reads one of them.
TEST(Plan, TwoResultsDoNotTakeTheSameMemory) {
  Builder b;
  const int32_t x = b.input(8), from = b.buffer(BufferClass::kArena, 8), unread = b.buffer(BufferClass::kArena, 8);
  const int32_t to = b.buffer(BufferClass::kArena, 8), y = b.buffer(BufferClass::kOutput, 8);
  b.task({x}, {from});
  b.task({from}, {unread, to}).may_share = {{.written = 1, .read = 0}, {.written = 2, .read = 0}};
  b.task({to}, {y});
  b.output(y);
  const std::vector<program::Operand> operands = b.planned().tasks[1].operands;
  EXPECT_NE(operands[1].buffer, operands[2].buffer);
}

TEST(Plan, MemoryIsSharedThoughDimensionsAreCutDifferently) {
  const auto shared_with = [](std::vector<Dim> sizes, std::vector<Dim> strides) {
    Builder b;
    const int32_t x = b.input(8), from = b.buffer(BufferClass::kArena, 8), to = b.buffer(BufferClass::kArena, 8);
    const int32_t y = b.buffer(BufferClass::kOutput, 8);
    b.task({x}, {from});
    program::Task& task = b.task({from}, {to}, true);
    task.operands[0].sizes = std::move(sizes);
    task.operands[0].strides = std::move(strides);
    b.task({to}, {y});
    b.output(y);
    return b.planned().tasks[1].operands[1].buffer == from;
  };
  EXPECT_TRUE(shared_with({{1}, {8}, {1}}, {{8}, {1}, {1}}));
  EXPECT_TRUE(shared_with({{2}, {4}}, {{4}, {1}}));
  EXPECT_FALSE(shared_with({{4}, {2}}, {{1}, {4}})) << "another order";
  EXPECT_FALSE(shared_with({{2}, {4}}, {{0}, {1}}));
}

// The task reads one of its own results, as a product reads its gate.
TEST(Plan, AResultTakesTheMemoryOfWhatItsOwnTaskMade) {
  Builder b;
  const int32_t x = b.input(8), gate = b.buffer(BufferClass::kArena, 8), to = b.buffer(BufferClass::kArena, 8);
  const int32_t y = b.buffer(BufferClass::kOutput, 8);
  program::Task& task = b.task({x}, {gate});
  task.operands.push_back(b.window(gate, Access::kRead));
  task.operands.push_back(b.window(to, Access::kWrite));
  task.may_share = {{.written = 3, .read = 2}};
  b.task({to}, {y});
  b.output(y);
  const Program& program = b.planned();
  EXPECT_EQ(program.tasks[0].operands[3].buffer, gate);
  EXPECT_EQ(program.tasks[1].operands[0].buffer, gate);
  EXPECT_EQ(life(program, gate), Life(0, 1));
}

TEST(Plan, PlanningTwiceChangesNothing) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    Program program = program::testing::random_unplanned_program(seed);
    plan(program);
    const std::string once = print(program);
    plan(program);
    EXPECT_EQ(print(program), once);
  }
}

TEST(Plan, RandomProgramsArePlannedAsByDefinition) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const program::testing::RandomProgramOptions options = {.tasks = static_cast<int32_t>(seed % 60)};
    Program program = random_unplanned_program(seed, options);
    plan(program);
    ASSERT_EQ(print(program), print(random_program(seed, options))) << "seed " << seed;
  }
}

}  // namespace
}  // namespace npugraph::plan
