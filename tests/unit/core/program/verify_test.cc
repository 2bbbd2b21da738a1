// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/error.h"
#include "program/random_program.h"
#include "program/sample_program.h"
#include "program/text.h"

namespace npugraph::program {
namespace {

// Returns the rule that the sample breaks after a change; empty if it breaks none.
std::string violation(const std::function<void(Program&)>& change) {
  Program program = parse(testing::kSampleProgram, "test");
  change(program);
  return verify(program);
}

TEST(ProgramVerify, TheSampleFollowsTheRules) {
  EXPECT_EQ(violation([](Program&) {}), "");
}

TEST(ProgramVerify, Symbols) {
  EXPECT_EQ(violation([](Program& p) { p.symbols[0].input = 9; }), "symbol 0: no input 9");
  EXPECT_EQ(violation([](Program& p) { p.symbols[0].dim = 2; }), "symbol 0: input 0 has no dimension 2");
  EXPECT_EQ(violation([](Program& p) { p.symbols[0].dim = kNone; }), "symbol 0: input 0 is a tensor: name a dimension");
  EXPECT_EQ(violation([](Program& p) { p.symbols[0].task = 1; }), "symbol 0: must come from an input or from a task");
  EXPECT_EQ(violation([](Program& p) { p.symbols[2].task = 3; }), "symbol 2: task 3 defines it 0 times");
  EXPECT_EQ(violation([](Program& p) { p.symbols[2].min = 0; }),
            "symbol 2: only an int that comes from an input has bounds");
  EXPECT_EQ(violation([](Program& p) { p.symbols[2].name = "s0"; }), "symbol 2: the name s0 is taken");
  EXPECT_EQ(violation([](Program& p) { p.symbols[2].name = "u 0"; }), "symbol 2: its name is not an identifier: u 0");
  EXPECT_EQ(violation([](Program& p) { p.exprs.push_back(Expr::symbol("s7") + Expr(1)); }).substr(0, 11),
            "expression ");
}

TEST(ProgramVerify, Conditions) {
  EXPECT_EQ(violation([](Program& p) { p.conditions[0] = 99; }), "condition 0: no expression 99");
  EXPECT_EQ(violation([](Program& p) { p.conditions[0] = p.dim(Expr::symbol("s0")).expr; }),
            "condition 0: s0 is neither true nor false");
  EXPECT_EQ(violation([](Program& p) {
              p.conditions[0] = p.dim(Expr::make(ExprOp::kLt, {Expr::symbol("u0"), Expr(3)})).expr;
            }),
            "condition 0: lt(u0, 3) is known only after task 1");
}

TEST(ProgramVerify, InputsAndConstants) {
  EXPECT_EQ(violation([](Program& p) { p.inputs[0].buffer = 1; }), "input 0: buffer 1 is not that of this input");
  EXPECT_EQ(violation([](Program& p) { p.inputs[0].buffer = -7; }), "input 0: no buffer -7");
  EXPECT_EQ(violation([](Program& p) { p.inputs[0].strides.pop_back(); }), "input 0: has 2 sizes, 1 strides");
  EXPECT_EQ(violation([](Program& p) { p.inputs[0].sizes[0] = {-1}; }), "input 0: a size is negative: -1");
  EXPECT_EQ(violation([](Program& p) { p.inputs[0].mutated = false; }),
            "input 0: is written, but not marked as mutated");
  EXPECT_EQ(violation([](Program& p) { p.inputs[2].mutated = true; }),
            "input 2: is marked as mutated, but no task writes it");
  EXPECT_EQ(violation([](Program& p) { p.constants[0].sizes[0] = 4; }), "constant 0: its elements do not fit 24 bytes");
  EXPECT_EQ(violation([](Program& p) { p.constants[0].strides[0] = INT64_MAX; }),
            "constant 0: its elements do not fit 24 bytes");
  EXPECT_EQ(violation([](Program& p) { p.constants[0].bytes = -24; }), "constant 0: has -24 bytes");
}

TEST(ProgramVerify, Buffers) {
  EXPECT_EQ(violation([](Program& p) { p.buffers[0].source = 5; }), "input 0: buffer 0 is not that of this input");
  EXPECT_EQ(violation([](Program& p) { p.buffers[2].source = 5; }), "buffer 2: no constant 5");
  EXPECT_EQ(violation([](Program& p) { p.buffers[2].bytes = {32}; }), "buffer 2: its size is not that of constant 0");
  EXPECT_EQ(violation([](Program& p) { p.buffers[3].source = 0; }),
            "buffer 3: only inputs and constants have a source");
  EXPECT_EQ(violation([](Program& p) { p.buffers[3].bytes = {.expr = 99}; }), "buffer 3: its size: no expression 99");
  EXPECT_EQ(violation([](Program& p) { p.buffers[3].bytes = p.buffers[5].bytes; }),
            "buffer 3: its size is defined by task 1: it cannot be in the arena");
  EXPECT_EQ(violation([](Program& p) { p.buffers[3].preallocated = true; }),
            "buffer 3: only strided heap buffers can be preallocated");
  EXPECT_EQ(violation([](Program& p) { p.buffers[3].opaque = true; }),
            "buffer 3: an opaque value cannot live in planned memory");
}

TEST(ProgramVerify, Operands) {
  EXPECT_EQ(violation([](Program& p) { p.tasks[0].operands[0].buffer = 8; }), "task 0, operand 0: no buffer 8");
  EXPECT_EQ(violation([](Program& p) { p.tasks[0].operands[1].sizes[0] = {3}; }),
            "task 0, operand 1: the window does not fit the 24 bytes of buffer 2");
  EXPECT_EQ(violation([](Program& p) { p.tasks[0].operands[1].strides[0] = {INT64_MAX}; }),
            "task 0, operand 1: the window does not fit the 24 bytes of buffer 2");
  EXPECT_EQ(violation([](Program& p) { p.tasks[0].operands[1].byte_offset = {-8}; }),
            "task 0, operand 1: the offset is negative: -8");
  EXPECT_EQ(violation([](Program& p) { p.tasks[0].operands[1].access = Access::kWrite; }),
            "task 0, operand 1: writes a constant, buffer 2");
  EXPECT_EQ(violation([](Program& p) { p.tasks[0].operands[0].sizes[0] = p.dim(Expr::symbol("u0")); }),
            "task 0, operand 0: a size u0 is used before task 1 defines it");
  EXPECT_EQ(
      violation([](Program& p) { p.tasks[0].operands[0].sizes[0] = p.dim(Expr::symbol("n", ScalarKind::kFloat)); }),
      "task 0, operand 0: a size is not an integer: n");
}

TEST(ProgramVerify, AWindowWithoutElementsFitsEverywhere) {
  EXPECT_EQ(violation([](Program& p) {
              p.tasks[0].operands[1].sizes = {{INT64_MAX}, {0}};
              p.tasks[0].operands[1].strides = {{INT64_MAX}, {1}};
            }),
            "");
}

TEST(ProgramVerify, Tasks) {
  EXPECT_EQ(violation([](Program& p) { p.tasks[0].args[0] = TensorRef{3}; }), "task 0: an argument names operand 3");
  EXPECT_EQ(violation([](Program& p) { p.tasks[0].scalars.pop_back(); }), "task 0: scalar 1 is not its argument s0");
  EXPECT_EQ(violation([](Program& p) { p.tasks[0].scalars.push_back(0); }),
            "task 0: has 3 scalars for 2 symbolic arguments");
  EXPECT_EQ(violation([](Program& p) { p.tasks[1].results[0] = 3; }), "task 1: a result names operand 3");
  EXPECT_EQ(violation([](Program& p) { p.tasks[0].may_share[0].read = 3; }),
            "task 0: may_share names an operand that is not there");
  EXPECT_EQ(violation([](Program& p) { p.tasks[0].callable = 3; }),
            "task 0: Python and nested tasks have a callable, and no others");
  EXPECT_EQ(violation([](Program& p) { p.tasks[2].callable = kNone; }),
            "task 2: Python and nested tasks have a callable, and no others");
  EXPECT_EQ(violation([](Program& p) { p.tasks[0].foreign = true; }), "task 0: foreign is said of ATen tasks alone");
  EXPECT_EQ(violation([](Program& p) { p.tasks[0].stream = -1; }), "task 0: stream -1");
  EXPECT_EQ(violation([](Program& p) { p.tasks[1].defines[1].result = kNone; }), "task 1: flag is result -1");
  EXPECT_EQ(violation([](Program& p) { p.tasks[1].defines[0].dim = 2; }),
            "task 1: u0 is the size of operand 1 in dimension 2 that is not there");
  EXPECT_EQ(violation([](Program& p) {
              p.tasks[1].args.push_back(Expr::symbol("u0"));
              p.tasks[1].scalars.push_back(p.dim(Expr::symbol("u0")).expr);
            }),
            "task 1: argument u0 is used before task 1 defines it");
}

TEST(ProgramVerify, Segments) {
  EXPECT_EQ(violation([](Program& p) { p.segments = {4}; }),
            "segments: none ends after task 1, which defines a symbol");
  EXPECT_EQ(violation([](Program& p) { p.segments = {2}; }), "segments: the last one does not end with the last task");
  EXPECT_EQ(violation([](Program& p) { p.segments = {2, 2, 4}; }), "segments: one ends at 2 after one that ends at 2");
  EXPECT_EQ(violation([](Program& p) { p.segments = {2, 400}; }), "segments: one ends at 400 after one that ends at 2");
}

TEST(ProgramVerify, Lives) {
  EXPECT_EQ(violation([](Program& p) { p.buffers[3].first_task = 1; }),
            "task 0: touches buffer 3, whose life is (1, 1)");
  EXPECT_EQ(violation([](Program& p) { p.buffers[3].last_task = 4; }), "buffer 3: its life is (0, 4)");
  EXPECT_EQ(violation([](Program& p) { p.tasks[1].operands[1].access = Access::kReadWrite; }),
            "task 1, operand 1: a size u0 is used before task 1 defines it");
  EXPECT_EQ(violation([](Program& p) { p.tasks[2].operands[2].access = Access::kRead; }),
            "task 2: uses heap buffer 7 before a task has written it");
}

TEST(ProgramVerify, MemoryIsWrittenBeforeItIsRead) {
  EXPECT_EQ(violation([](Program& p) { p.tasks[0].operands[2].access = Access::kReadWrite; }),
            "task 0: reads buffer 3, which no task has written");
  EXPECT_EQ(violation([](Program& p) {
              p.tasks[0].operands.pop_back();
              p.tasks[0].results.clear();
              p.tasks[0].may_share.clear();
            }),
            "task 1: reads buffer 3, which no task has written");
  EXPECT_EQ(violation([](Program& p) { p.tasks[2].operands[1].access = Access::kReadWrite; }),
            "task 2: reads buffer 5, which no task has written");
  EXPECT_EQ(violation([](Program& p) { p.tasks[3].operands[2].sizes = {{15}}; }),
            "output 0: reads the bytes from 0 to 64 of buffer 6, not all of which a task has written");
}

// Task 0 writes the window of b0 which its first two operands say, and task 1 reads that of its first one.
std::string parts_violation(std::string_view first, std::string_view second, std::string_view read) {
  const std::string text = cat(R"(npugraph.program 4 @parts {
  buffer b0 arena bytes(96) live(0, 1)
  buffer b1 output bytes(96) live(1, 1)
  task 0 kernel "fill" {
    write b0+)",
                               first, R"(
    write b0+)",
                               second, R"(
    args(%0, %1)
  }
  task 1 kernel "copy" {
    read b0+)",
                               read, R"(
    write b1+0 : f32[24]{1}
    args(%0)
  }
  segment 2
  output tensor b1+0 : f32[24]{1}
})");
  try {
    return verify(parse(text, "test"));
  } catch (const UserError& error) {
    return std::string(error.what()).substr(std::string_view("test: ").size());
  }
}

TEST(ProgramVerify, PartsAreWrittenBeforeTheWholeIsRead) {
  EXPECT_EQ(parts_violation("0 : f32[12]{1}", "48 : f32[12]{1}", "0 : f32[4, 6]{6, 1}"), "");
  EXPECT_EQ(parts_violation("0 : f32[4, 2]{6, 1}", "8 : f32[4, 4]{6, 1}", "0 : f32[6, 4]{1, 6}"), "");
  EXPECT_EQ(parts_violation("0 : f32[4, 2]{6, 1}", "12 : f32[4, 3]{6, 1}", "0 : f32[24]{1}"),
            "task 1: reads the bytes from 0 to 96 of buffer 0, not all of which a task has written");
  EXPECT_EQ(parts_violation("0 : f32[4, 2]{6, 1}", "12 : f32[4, 3]{6, 1}", "36 : f32[2]{1}"), "");
  EXPECT_EQ(parts_violation("0 : f32[4, 2]{6, 1}", "12 : f32[4, 3]{6, 1}", "32 : f32[2]{1}"),
            "task 1: reads the bytes from 32 to 40 of buffer 0, not all of which a task has written");
  EXPECT_EQ(parts_violation("0 : f32[4, 2]{6, 1}", "0 : f32[0]{1}", "8 : f32[4, 0]{6, 1}"), "");
}

TEST(ProgramVerify, Releases) {
  EXPECT_EQ(violation([](Program& p) { p.tasks[2].releases.clear(); }), "buffer 4: is never released");
  EXPECT_EQ(violation([](Program& p) { p.tasks[3].releases.push_back(7); }),
            "task 3: releases buffer 7 that is returned or released before");
  EXPECT_EQ(violation([](Program& p) { p.tasks[2].releases.push_back(5); }),
            "task 2: releases buffer 5 that does not die there");
  EXPECT_EQ(violation([](Program& p) { p.tasks[1].releases.push_back(3); }),
            "task 1: releases buffer 3 that does not die there");
  EXPECT_EQ(violation([](Program& p) { p.tasks[1].releases.push_back(99); }),
            "task 1: releases buffer 99 that is not there");
}

TEST(ProgramVerify, Outputs) {
  EXPECT_EQ(violation([](Program& p) { p.outputs[0].tensor.buffer = 3; }),
            "output 0: returns a window into the arena, buffer 3");
  EXPECT_EQ(violation([](Program& p) {
              p.buffers.push_back({});
              p.buffers.back().cls = BufferClass::kOutput;
              p.outputs[0].tensor.buffer = 8;
              p.outputs[0].tensor.sizes[0] = {0};
            }),
            "output 0: returns buffer 8, which no task writes");
  EXPECT_EQ(violation([](Program& p) { p.outputs[1].input = kNone; }), "output 1: names input -1");
  EXPECT_EQ(violation([](Program& p) { p.outputs[2].input = 1; }), "output 2: input 1 is not a tensor");
  EXPECT_EQ(violation([](Program& p) { p.outputs[3].scalar_kind = ScalarKind::kFloat; }),
            "output 3: is not of its declared kind");
  EXPECT_EQ(violation([](Program& p) { p.outputs[3].scalar.expr = 99; }), "output 3: no expression 99");
}

TEST(Program, EachExpressionIsKeptOnce) {
  Program program;
  const Expr s0 = Expr::symbol("s0");
  EXPECT_EQ(program.dim(Expr(7)), Dim{7});
  EXPECT_EQ(program.dim(s0 * Expr(4)), program.dim(Expr(4) * s0));
  EXPECT_EQ(program.exprs.size(), 1u);
  EXPECT_EQ(program.expr(program.dim(s0 * Expr(4))), s0 * Expr(4));
  EXPECT_EQ(program.expr({7}), Expr(7));
}

TEST(Program, ConstantsThatAreNotIntegersAreExpressions) {
  Program program;
  const Dim half = program.dim(Expr::constant(Scalar::of_float(0.5)));
  EXPECT_FALSE(half.is_constant());
  EXPECT_EQ(program.expr(half).value().as_float(), 0.5);
  EXPECT_FALSE(program.dim(Expr::constant(Scalar::of_bool(true))).is_constant());
}

TEST(Program, DefiningTasks) {
  const Program program = parse(testing::kSampleProgram, "test");
  const std::vector<int32_t> tasks = defining_tasks(program);
  EXPECT_EQ(tasks[program.buffers[0].bytes.expr], kNone);
  EXPECT_EQ(tasks[program.outputs[3].scalar.expr], 1);
}

}  // namespace
}  // namespace npugraph::program
