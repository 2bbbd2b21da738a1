// SPDX-License-Identifier: Apache-2.0
#include "program/text.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "program/random_program.h"
#include "program/sample_program.h"

namespace npugraph::program {
namespace {

using testing::kSampleProgram;

// The message with which `text` is refused.
std::string refusal(std::string_view text) {
  try {
    parse(text, "test");
    return "nothing was refused";
  } catch (const UserError& error) {
    return error.what();
  }
}

// The sample with the first `from` replaced.
std::string edited(std::string_view from, std::string_view to) {
  std::string text(kSampleProgram);
  const size_t position = text.find(from);
  EXPECT_NE(position, std::string::npos) << from;
  return text.replace(position, from.size(), to);
}

TEST(ProgramText, EveryFeatureRoundTrips) {
  const Program program = parse(kSampleProgram, "test");
  EXPECT_EQ(print(program), kSampleProgram);
}

TEST(ProgramText, FieldsArriveWhereTheyBelong) {
  const Program program = parse(kSampleProgram, "test");
  EXPECT_EQ(program.name, "forward");
  EXPECT_EQ(program.buffers[5].cls, BufferClass::kHeap);
  EXPECT_TRUE(program.buffers[5].preallocated);
  EXPECT_TRUE(program.buffers[7].opaque);
  EXPECT_EQ(program.expr(program.buffers[5].bytes), Expr::symbol("u0") * Expr(8));
  const Task& scale = program.tasks[0];
  EXPECT_TRUE(scale.operands[2].copied);
  EXPECT_FALSE(scale.operands[0].copied);
  EXPECT_EQ(scale.scalars.size(), 2u);  // n and s0
  EXPECT_EQ(scale.operands[1].byte_offset, Dim{8});
  EXPECT_EQ(scale.may_share[0].written, 2);
  EXPECT_EQ(std::get<std::vector<TensorRef>>(scale.args[3])[1].id, TensorRef::kAbsent);
  EXPECT_EQ(program.tasks[1].operands[2].access, Access::kReadWrite);
  EXPECT_EQ(program.tasks[1].results, (std::vector<int32_t>{1, kNone}));
  EXPECT_EQ(program.tasks[1].defines[1].operand, kNone);
  EXPECT_EQ(program.tasks[1].defines[1].result, 1);
  EXPECT_EQ(program.tasks[2].callable, 7);
  EXPECT_EQ(program.tasks[2].stream, 1);
  EXPECT_EQ(program.outputs[1].input, 0);
  EXPECT_EQ(program.outputs[4].scalar_kind, ScalarKind::kFloat);
}

TEST(ProgramText, RandomProgramsRoundTrip) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Program program = testing::random_program(seed, {.tasks = static_cast<int32_t>(seed % 50)});
    ASSERT_EQ(verify(program), "") << "seed " << seed;
    const std::string text = print(program);
    ASSERT_EQ(print(parse(text, "test")), text) << "seed " << seed;
  }
}

TEST(ProgramText, NamesThatAreNoIdentifiersAreQuoted) {
  Program program;
  program.name = "forward #1 \"x\"";
  program.segments = {0};
  EXPECT_EQ(print(program), "npugraph.program 4 @\"forward #1 \\\"x\\\"\" {\n  segment 0\n}\n");
  EXPECT_EQ(parse(print(program), "test").name, program.name);
}

TEST(ProgramText, MalformedTextIsRefusedWithItsPlace) {
  EXPECT_EQ(refusal(edited("program 4", "program 5")), "test:1:18: a Program of version 5; this build reads version 4");
  EXPECT_EQ(refusal(edited("stream(1)", "stream(x)")), "test:34:38: expected a stream, found 'x'");
  EXPECT_EQ(refusal(edited("u0 = size(1, 0)", "u9 = size(1, 0)")), "test:30:39: the symbol u9 is not declared above");
  EXPECT_EQ(refusal(edited("buffer b1", "buffer b2")), "test:7:10: expected b1");
  EXPECT_EQ(refusal(edited("symbol n", "symbol s0")), "test:3:10: the symbol s0 is declared twice");
  EXPECT_EQ(refusal(edited("task(1)", "task(3000000000)")),
            "test:4:26: 3000000000 is out of range for a task's number");
  EXPECT_EQ(refusal(std::string(kSampleProgram) + "x"), "test:57:1: expected the end of the text, found 'x'");
  EXPECT_EQ(
      refusal(edited(" segment 2", " sediment 2")),
      "test:48:3: expected symbol, buffer, constant, input, require, task, segment, output or '}', found 'sediment'");
}

TEST(ProgramText, ABrokenRuleIsRefused) {
  EXPECT_EQ(refusal(edited("live(0, 1)", "live(0, 0)")), "test: task 1: touches buffer 0, whose life is (0, 0)");
}

TEST(ProgramText, DeepNestingIsRefused) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "max(s0, ";
  EXPECT_NE(refusal(edited("4*s0 + u0", deep)), "nothing was refused");
  EXPECT_NE(refusal(edited("4*s0 + u0", std::string(100'000, '('))), "nothing was refused");
  EXPECT_NE(refusal(edited("n, [%0", std::string(100'000, '['))), "nothing was refused");
}

TEST(ProgramText, EveryPrefixIsRefused) {
  for (size_t size = 0; size + 1 < kSampleProgram.size(); ++size) {
    ASSERT_THROW(parse(kSampleProgram.substr(0, size), "test"), UserError) << size;
  }
}

TEST(ProgramText, DamagedTextIsRefusedOrRead) {
  const std::string_view replacements = "0-9(){}[]\"%+ zu\n";
  for (size_t i = 0; i < kSampleProgram.size(); ++i) {
    std::string text(kSampleProgram);
    text[i] = replacements[i % replacements.size()];
    try {
      const std::string printed = print(parse(text, "test"));
      ASSERT_EQ(print(parse(printed, "test")), printed) << i;
    } catch (const UserError&) {
      continue;
    }
  }
}

}  // namespace
}  // namespace npugraph::program
