// SPDX-License-Identifier: Apache-2.0
// Loops compute the ramps and constants that they read. Triangles (tril) compare indices.
#include <gtest/gtest.h>

#include "lower/lower_testing.h"

namespace npugraph::lower {
namespace {

using program::Program;

constexpr const char* kSquare = R"(
    symbol s0 : int [2, 4096]
    input %x : f32[s0, s0] user "x"
    )";

Program lowered_positions(const std::string& body) { return lowered(kSquare + body, {.generate = true}); }
std::string fused_positions(const std::string& body) { return tasks_of(lowered_positions(body)); }
const std::string& kernel_text(const Program& program) { return std::get<std::string>(program.tasks.at(0).args.at(0)); }

constexpr const char* kPositions = R"(
    %p : i64[s0] = aten.arange(s0)
    %q : i64[s0, 1]{1, 1} = aten.unsqueeze(%p, 1) view(0)
    %m : bool[s0, s0] = aten.le.Tensor(%p, %q)
    )";

TEST(Ramps, MasksAreComparedInRegisters) {
  const Program program = lowered_positions(std::string(kPositions) + R"(
    %f : f32[] = aten.full([], -inf)
    %y : f32[s0, s0] = aten.where.self(%m, %x, %f)
    return %y)");
  ASSERT_EQ(tasks_of(program), "loop.le.where");
  EXPECT_EQ(program.tasks[0].operands.size(), 2u);  // x and the result
  EXPECT_EQ(program.buffers.size(), 2u);
}

TEST(Ramps, AreThereForOtherReadersToo) {
  const std::string where = std::string(kPositions) + "%y : f32[s0, s0] = aten.where.self(%m, %x, 0.0)\n";
  EXPECT_EQ(fused_positions(where + "return %y, %p"), "aten.arange loop.le.where");
  EXPECT_EQ(fused_positions(where + "return %y, %q"), "aten.arange loop.le.where");
  EXPECT_EQ(fused_positions(where + "%s : i64[s0] = aten.take(%p, %p)\nreturn %y, %s"),
            "aten.arange loop.le.where aten.take");
}

// A tensor of ones that takes only sizes and type from a ramp is computed in registers, too.
TEST(Ramps, AreNotReadByOtherGenerators) {
  EXPECT_EQ(fused_positions(R"(
    %p : i64[s0] = aten.arange(s0)
    %o : i64[s0] = aten.ones_like(%p)
    %y : i64[s0] = aten.add.Tensor(%p, %o)
    return %y)"),
            "loop.add");
  EXPECT_EQ(fused_positions(R"(
    %p : i64[s0] = aten.arange(s0)
    %o : i64[s0] = aten.ones_like(%p)
    %y : i64[s0] = aten.add.Tensor(%p, %o)
    return %y, %o)"),
            "aten.arange aten.ones_like loop.add");
}

TEST(Ramps, ByThemselvesStayWithTheHost) {
  EXPECT_EQ(fused_positions("%p : i64[s0] = aten.arange(s0)\nreturn %p"), "aten.arange");
  EXPECT_EQ(fused_positions("%p : f32[2000, 2000] = aten.zeros([2000, 2000])\nreturn %p"), "aten.zeros");
}

TEST(Ramps, WithoutGeneratedCodeStayWithTheHost) {
  EXPECT_EQ(tasks_of(lowered(std::string(kSquare) + kPositions + "return %m")), "aten.arange aten.le.Tensor");
}

TEST(Ramps, ThatAreWrittenAreInMemory) {
  EXPECT_EQ(fused_positions(R"(
    input %i : i64[1] user "i"
    %z : f32[s0, s0] = aten.zeros([s0, s0])
    %u : f32[s0, s0] = aten.relu_(%z)
    %y : f32[s0, s0] = aten.add.Tensor(%x, %u)
    return %y)")
                .substr(0, 10),
            "aten.zeros");
}

TEST(Ramps, CountFromTheirStartInSteps) {
  const Program program = lowered_positions(R"(
    %p : i64[s0] = aten.arange.start_step(5, 3*s0 + 5, 3)
    %t : i64[s0 - 1] = aten.slice.Tensor(%p, 0, 1, s0) view(1)
    %y : i64[s0 - 1] = aten.mul.Tensor(%t, 2)
    return %y)");
  ASSERT_EQ(tasks_of(program), "loop.mul");
  EXPECT_EQ(program.tasks[0].operands.size(), 1u);
  EXPECT_NE(kernel_text(program).find("+ 8"), std::string::npos) << kernel_text(program);
}

// Loops compute ranges of integers only, because those of floats are rounded.
TEST(Ramps, OfFloatsInOrderStayWithTheHost) {
  EXPECT_EQ(fused_positions("%p : f32[s0] = aten.arange(s0)\n%y : f32[s0, s0] = aten.add.Tensor(%x, %p)\nreturn %y")
                .substr(0, 11),
            "aten.arange");
}

TEST(Ramps, OfNumbersThatTheirTypeCannotHoldStayWithTheHost) {
  EXPECT_EQ(fused_positions(
                "%z : f32[s0, s0] = aten.full([s0, s0], 1e300)\n%y : f32[s0, s0] = aten.add.Tensor(%x, %z)\nreturn %y")
                .substr(0, 9),
            "aten.full");
}

TEST(Ramps, IndicesAreLookedAtInRegisters) {
  const Program program = lowered_positions(R"(
    input %w : f32[64, 16] user "w"
    %p : i64[s0] = aten.arange(s0)
    %q : i64[1, s0] = aten.unsqueeze(%p, 0) view(0)
    %e : f32[1, s0, 16] = aten.embedding(%w, %q)
    return %e)");
  ASSERT_EQ(tasks_of(program), "loop.embedding");
  EXPECT_EQ(program.tasks[0].operands.size(), 2u);
  EXPECT_NE(kernel_text(program).find("check"), std::string::npos);
}

TEST(Triangles, OfConstantsReadNothing) {
  const Program program = lowered_positions(R"(
    %o : f32[s0, s0] = aten.ones([s0, s0])
    %t : f32[s0, s0] = aten.tril(%o, 1)
    %y : f32[s0, s0] = aten.mul.Tensor(%x, %t)
    return %y)");
  ASSERT_EQ(tasks_of(program), "loop.tril.mul");
  EXPECT_EQ(program.tasks[0].operands.size(), 2u);
}

constexpr const char* kPositionTable = R"(
    input %w : f32[6, 7, 16] user "w"
    input %i : i64[3, 1] user "i"
    input %j : i64[4] user "j"
    )";

TEST(Indices, OfSeveralDimensionsAreOneLoop) {
  const Program program = lowered_positions(std::string(kPositionTable) + R"(
    %e : f32[3, 4, 16] = aten.index.Tensor(%w, [%i, %j])
    %y : f32[3, 4, 16] = aten.exp(%e)
    return %y)");
  ASSERT_EQ(tasks_of(program), "loop.index.exp");
  const std::string& text = kernel_text(program);
  EXPECT_LT(text.find("dimension 0 with size 6"), text.find("dimension 1 with size 7")) << text;
}

TEST(Indices, OfDimensionsOfUnknownSizeNameTheSizeOfTheCall) {
  const Program program = lowered_positions(R"(
    input %j : i64[4] user "j"
    %e : f32[4] = aten.index.Tensor(%x, [%j, %j])
    return %e)");
  ASSERT_EQ(tasks_of(program), "loop.index");
  EXPECT_NE(kernel_text(program).find("for dimension 1 with size {s0}"), std::string::npos) << kernel_text(program);
}

TEST(Indices, ThatAreMasksStayWithTheHost) {
  EXPECT_EQ(fused_positions(R"(
    input %w : f32[6, 7] user "w"
    input %b : bool[6] user "b"
    input %j : i64[4] user "j"
    %e : f32[4] = aten.index.Tensor(%w, [%b, %j])
    return %e)"),
            "aten.index.Tensor");
}

TEST(Rearrangements, AreReadWhereTheySayAndRunWithWhatFollows) {
  EXPECT_EQ(fused_positions(R"(
    %r : f32[3, 2*s0, s0] = aten.repeat(%x, [3, 2, 1])
    %y : f32[3, 2*s0, s0] = aten.exp(%r)
    return %y)"),
            "loop.repeat.exp");
  EXPECT_EQ(fused_positions(R"(
    %r : f32[s0, s0] = aten.roll(%x, [1, -2], [0, 0])
    %y : f32[s0, s0] = aten.exp(%r)
    return %y)"),
            "loop.roll.exp");
  EXPECT_EQ(fused_positions(R"(
    %p : i64[s0] = aten.arange(s0)
    %r : i64[4, s0] = aten.repeat(%p, [4, 1])
    return %r)"),
            "loop.repeat*");
}

TEST(Rearrangements, OfTheLastDimensionAndOfAllAsOneStayWithTheHost) {
  EXPECT_EQ(fused_positions("%r : f32[s0, s0] = aten.roll(%x, [1], [-1])\nreturn %r"), "aten.roll*");
  EXPECT_EQ(fused_positions("%r : f32[s0, 2*s0] = aten.repeat(%x, [1, 2])\nreturn %r"), "aten.repeat*");
  EXPECT_EQ(fused_positions("%r : f32[s0, s0] = aten.roll(%x, [1], [])\nreturn %r"), "aten.roll*");
}

constexpr const char* kRows = R"(
    input %w : f32[8, 100] user "w"
    input %i : i64[8, 1] user "i"
    input %k : i64[8, 3] user "k"
    input %v : f32[8, 3] user "v"
    input %u : f32[8, 1] user "u"
    )";

TEST(Scatters, OfOneElementOfEachRowCompare) {
  EXPECT_EQ(fused_positions(std::string(kRows) + R"(
    %s : f32[8, 100] = aten.scatter.value(%w, 1, %i, 1.0)
    %y : f32[8, 100] = aten.exp(%s)
    return %y)"),
            "loop.scatter.exp");
  EXPECT_EQ(fused_positions(std::string(kRows) + "%s : f32[8, 100] = aten.scatter_add(%w, 1, %i, %v)\nreturn %s"),
            "loop.scatter_add");
}

TEST(Scatters, IntoOperandsWriteNumbersAnywhere) {
  EXPECT_EQ(fused_positions(std::string(kRows) + "%s : f32[8, 100] = aten.scatter_.value(%w, 1, %k, 1.0)\nreturn"),
            "loop.scatter_");
  EXPECT_EQ(fused_positions(std::string(kRows) + "%s : f32[8, 100] = aten.scatter_.src(%w, 1, %i, %u)\nreturn"),
            "loop.scatter_");
}

// The writes loop over the elements of the index. These are fewer than the elements of the source, so the loops could
// not share what they compute.
TEST(Scatters, OfPartOfTheSourceIntoOperandsStayWithTheHost) {
  EXPECT_EQ(fused_positions(std::string(kRows) + "%s : f32[8, 100] = aten.scatter_.src(%w, 1, %i, %v)\nreturn"),
            "aten.scatter_.src");
}

// If several elements go to one place, the last one must stay, or all must be added in their order.
TEST(Scatters, OfSeveralElementsStayWithTheHost) {
  EXPECT_EQ(fused_positions(std::string(kRows) + "%s : f32[8, 100] = aten.scatter.src(%w, 1, %k, %v)\nreturn %s"),
            "aten.scatter.src");
  EXPECT_EQ(fused_positions(std::string(kRows) + "%s : f32[8, 100] = aten.scatter_.src(%w, 1, %k, %v)\nreturn"),
            "aten.scatter_.src");
  EXPECT_EQ(fused_positions(std::string(kRows) + "%s : f32[8, 100] = aten.scatter_add_(%w, 1, %k, %v)\nreturn"),
            "aten.scatter_add_");
}

}  // namespace
}  // namespace npugraph::lower
