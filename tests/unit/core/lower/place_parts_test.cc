// SPDX-License-Identifier: Apache-2.0
// Concatenations whose parts are computed in place: the tasks that they become.
#include <gtest/gtest.h>

#include "lower/lower_testing.h"

namespace npugraph::lower {
namespace {

using program::BufferClass;
using program::Operand;
using program::Program;
using program::Task;

std::string dims_text(const Program& program, const std::vector<program::Dim>& dims) {
  std::string text;
  for (const program::Dim& dim : dims) text += (text.empty() ? "" : " ") + program.expr(dim).str();
  return text;
}

// "buffer+offset [sizes] {strides}" of the last operand of a task, which it writes.
std::string written(const Program& program, size_t task) {
  const Operand& operand = program.tasks.at(task).operands.back();
  return program.buffers[operand.buffer].name + "+" + program.expr(operand.byte_offset).str() + " [" +
         dims_text(program, operand.sizes) + "] {" + dims_text(program, operand.strides) + "}";
}

constexpr const char* kPair = "input %x : f32[2, 3] user \"x\"\ninput %y : f32[2, 3] user \"y\"\n";

TEST(PlaceParts, ComputesPartsIntoTheirWindows) {
  const Program program = lowered(std::string(kPair) + R"(
    %a : f32[2, 3] = aten.neg(%x)
    %b : f32[2, 3] = aten.abs(%y)
    %c : f32[2, 6] = aten.cat([%a, %b], -1)
    return %c)");
  EXPECT_EQ(tasks_of(program), "kernel.unary_neg kernel.unary_abs");
  EXPECT_EQ(written(program, 0), "c+0 [2 3] {6 1}");
  EXPECT_EQ(written(program, 1), "c+12 [2 3] {6 1}");
  EXPECT_EQ(program.buffers[program.outputs[0].tensor.buffer].cls, BufferClass::kOutput);
}

TEST(PlaceParts, CopiesTheOthers) {
  const Program program = lowered(std::string(kPair) + R"(
    %a : f32[2, 3] = aten.neg(%x)
    %c : f32[6, 3] = aten.cat([%a, %y, %a])
    return %c)");
  EXPECT_EQ(tasks_of(program), "kernel.unary_neg kernel.copy* kernel.copy*");
  EXPECT_EQ(written(program, 0), "c+0 [2 3] {3 1}");
  EXPECT_EQ(written(program, 1), "c+24 [2 3] {3 1}");
  EXPECT_EQ(written(program, 2), "c+48 [2 3] {3 1}");
}

TEST(PlaceParts, LeavesConcatenationsOfInputsAlone) {
  EXPECT_EQ(tasks_of(lowered(std::string(kPair) + "%c : f32[4, 3] = aten.cat([%x, %y])\nreturn %c")), "aten.cat.out*");
}

TEST(PlaceParts, FollowsViewsAndUpdatesInPlace) {
  const Program program = lowered(std::string(kPair) + R"(
    %a : f32[2, 3] = aten.neg(%x)
    %b : f32[2, 3] = aten.mul_.Tensor(%a, %y)
    %t : f32[3, 2]{1, 3} = aten.t(%b) view(0)
    %c : f32[3, 4] = aten.cat([%t, %t], 1)
    return %c)");
  EXPECT_EQ(tasks_of(program), "kernel.unary_neg kernel.binary_mul kernel.copy*");
  EXPECT_EQ(written(program, 0), "c+0 [2 3] {1 4}");
  EXPECT_EQ(written(program, 1), "c+0 [2 3] {1 4}");
  EXPECT_EQ(written(program, 2), "c+8 [3 2] {4 1}");
}

TEST(PlaceParts, Nests) {
  const Program program = lowered(std::string(kPair) + R"(
    %a : f32[2, 3] = aten.neg(%x)
    %b : f32[2, 3] = aten.abs(%x)
    %c : f32[2, 6] = aten.cat([%a, %b], 1)
    %d : f32[2, 3] = aten.neg(%y)
    %e : f32[2, 9] = aten.cat([%d, %c], 1)
    return %e)");
  EXPECT_EQ(tasks_of(program), "kernel.unary_neg kernel.unary_abs kernel.unary_neg");
  EXPECT_EQ(written(program, 0), "e+12 [2 3] {9 1}");
  EXPECT_EQ(written(program, 1), "e+24 [2 3] {9 1}");
}

TEST(PlaceParts, Stacks) {
  const Program program = lowered(std::string(kPair) + R"(
    %a : f32[2, 3] = aten.neg(%x)
    %b : f32[2, 3] = aten.abs(%x)
    %c : f32[2, 2, 3] = aten.stack([%a, %b], 1)
    return %c)");
  EXPECT_EQ(tasks_of(program), "kernel.unary_neg kernel.unary_abs");
  EXPECT_EQ(written(program, 1), "c+12 [2 3] {6 1}");
}

// A host whose out variants write row-major results alone.
class RowMajorCatalog : public Catalog {
 public:
  std::optional<OutVariant> out_variant(const ir::Op& op) const override {
    auto variant = Catalog::out_variant(op);
    if (variant) variant->any_strides = false;
    return variant;
  }
};

TEST(PlaceParts, RowMajorResultsHaveMemoryOfTheirOwn) {
  const Program program = lowered(R"(
    symbol s0 : int [2, 100]
    input %x : f32[s0, 3] user "x"
    input %y : f32[s0, 3] user "y"
    %a : f32[s0, 3] = aten.neg(%x)
    %c : f32[s0, 6] = aten.cat([%y, %a], 1)
    return %c)",
                                  {}, RowMajorCatalog());
  EXPECT_EQ(tasks_of(program), "aten.neg.out aten.cat.out*");
}

TEST(PlaceParts, KnowsSymbolicSizes) {
  const Program program = lowered(R"(
    symbol s0 : int [2, 100]
    input %x : f32[s0, 3] user "x"
    input %y : f32[s0, 3] user "y"
    %a : f32[s0, 3] = aten.neg(%x)
    %c : f32[2*s0, 3] = aten.cat([%y, %a])
    return %c)");
  EXPECT_EQ(tasks_of(program), "aten.neg.out kernel.copy*");
  EXPECT_EQ(written(program, 0), "c+12*s0 [s0 3] {3 1}");
}

// A part stays in memory of its own for each of these reasons.
TEST(PlaceParts, LeavesPartsThatOthersSee) {
  const auto with = [](const std::string& nodes) { return tasks_of(lowered(kPair + nodes)); };
  // It is returned, read later, or written later.
  EXPECT_EQ(with("%a : f32[2, 3] = aten.neg(%x)\n%c : f32[4, 3] = aten.cat([%a, %y])\nreturn %c, %a"),
            "kernel.unary_neg aten.cat.out*");
  EXPECT_EQ(with("%a : f32[2, 3] = aten.neg(%x)\n%c : f32[4, 3] = aten.cat([%a, %y])\n%d : f32[2, 3] = aten.abs(%a)\n"
                 "return %c, %d"),
            "kernel.unary_neg aten.cat.out* kernel.unary_abs");
  EXPECT_EQ(with("%a : f32[2, 3] = aten.neg(%x)\n%c : f32[4, 3] = aten.cat([%a, %y])\n%d : f32[2, 3] = aten.relu_(%a)\n"
                 "return %c, %d"),
            "kernel.unary_neg aten.cat.out* kernel.unary_relu");
  // It is only a piece of its memory, or it has a view that is no window of the concatenation.
  EXPECT_EQ(with("%a : f32[2, 3] = aten.neg(%x)\n%s : f32[1, 3]{3, 1} = aten.slice.Tensor(%a, 0, 0, 1) view(0)\n"
                 "%c : f32[3, 3] = aten.cat([%s, %y])\nreturn %c"),
            "kernel.unary_neg aten.cat.out*");
  EXPECT_EQ(with("%a : f32[2, 3] = aten.neg(%x)\n%v : f32[6] = aten.view(%a, [6]) view(0)\n%w : f32[6] = aten.abs(%v)\n"
                 "%c : f32[2, 6] = aten.cat([%a, %y], 1)\nreturn %c, %w"),
            "kernel.unary_neg kernel.unary_abs aten.cat.out*");
}

TEST(PlaceParts, LeavesOperatorsThatCareAboutLayout) {
  const auto with = [](const std::string& cat) {
    return tasks_of(lowered(R"(
    input %x : f32[4, 16] user "x"
    input %row : f32[1, 16] user "row"
    input %w : f32[4, 4] user "w"
    %a : f32[4, 16] = aten.gelu(%x)
    %b : f32[4, 4] = aten.gelu(%w)
    )" + cat + "\nreturn %c, %b"));
  };
  const std::string gelus = "aten.gelu.out aten.gelu.out ";
  EXPECT_EQ(with("%c : f32[5, 16] = aten.cat([%row, %a])"),
            gelus + "kernel.copy*");  // its rows are dense and aligned, as in memory of their own
  EXPECT_EQ(with("%c : f32[4, 20] = aten.cat([%a, %w], 1)"), gelus + "aten.cat.out*");  // other strides
  EXPECT_EQ(tasks_of(lowered(R"(
    input %w : f32[4, 4] user "w"
    input %odd : f32[1, 4] user "odd"
    %b : f32[4, 4] = aten.gelu(%w)
    %c : f32[5, 4] = aten.cat([%odd, %b])
    return %c)")),
            "aten.gelu.out aten.cat.out*");  // its place would not be aligned: it is 16 bytes behind the start
}

TEST(PlaceParts, LeavesConversionsAndOddRanks) {
  EXPECT_EQ(tasks_of(lowered(R"(
    input %x : f32[3] user "x"
    input %i : i64[3] user "i"
    %a : f32[3] = aten.neg(%x)
    %c : f32[6] = aten.cat([%a, %i])
    return %c)")),
            "kernel.unary_neg aten.cat.out*");
}

TEST(PlaceParts, LeavesSizesThatATaskDefines) {
  EXPECT_EQ(tasks_of(lowered(R"(
    input %x : f32[3] user "x"
    %a : f32[3] = aten.neg(%x)
    %n : i64[u0, 1] = aten.nonzero(%x) defines(u0 = result 0 dim 0)
    %k : i64[u0] = aten.squeeze.dim(%n, 1) view(0)
    %y : f32[u0] = aten.index.Tensor(%x, [%k])
    %c : f32[u0 + 3] = aten.cat([%a, %y])
    return %c)")),
            "kernel.unary_neg aten.nonzero aten.index.Tensor aten.cat.out*");
}

constexpr const char* kBoth = R"(
    %a : f32[2, 3] = aten.neg(%x)
    %b : f32[2, 3] = aten.abs(%y)
    %c : f32[2, 6] = aten.cat([%a, %b], -1)
    %d : f32[2, 6] = aten.exp(%c)
    return %d)";

TEST(PlaceParts, CanBeTurnedOff) {
  const Program kept = lowered(kPair + std::string(kBoth), {.place_parts = false});
  EXPECT_EQ(tasks_of(kept), "kernel.unary_neg kernel.unary_abs aten.cat.out* aten.exp.out");
  EXPECT_EQ(kept.tasks[2].reason, "remove_cat_ops is off");
}

TEST(PlaceParts, SaysWhyAPartIsCopied) {
  const Program program = lowered("section 0 stream(1)\nsection 1 stream(0) after(0)\n" + std::string(kPair) + R"(
    %e : f32[2, 3] = aten.abs(%x)
    %a : f32[2, 3] = aten.neg(%x) section(1)
    %b : f32[2, 3] = aten.abs(%y) section(1)
    %f : f32[2, 3] = aten.cumsum(%x, 0) section(1)
    %c : f32[2, 18] = aten.cat([%a, %y, %a, %b, %e, %f], 1) section(1)
    %d : f32[2, 3] = aten.neg(%b) section(1)
    return %c, %d)");
  std::string reasons;
  for (const Task& task : program.tasks) {
    if (task.name == "kernel.copy") reasons += task.reason.substr(task.reason.find(": ") + 2) + "\n";
  }
  EXPECT_EQ(reasons,
            "it is an input or a constant\n"
            "its memory stands in a concatenation already\n"
            "it is used later, too\n"
            "it is computed in another stream, or on the other side of an event\n"
            "its operator writes into no memory that it is given\n");
}

}  // namespace
}  // namespace npugraph::lower
