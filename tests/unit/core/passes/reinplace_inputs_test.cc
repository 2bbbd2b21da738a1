// SPDX-License-Identifier: Apache-2.0
// Tests that depend on PassContext::copy_epilogues. The other tests of the pass are in tests/ir/passes.
#include "passes/memory/reinplace_inputs.h"

#include <gtest/gtest.h>

#include "passes/memory/remove_copies.h"
#include "passes/pass_testing.h"

namespace npugraph::passes {
namespace {

constexpr const char* kFailureBeforeCopy = R"(
  input %x : f32[4] static "x"
  input %w : f32[8, 4] parameter "w"
  input %i : i64[2] user "i"
  %r : f32[4] = aten.add.Tensor(%x, 1)
  %e : f32[2, 4] = aten.embedding(%w, %i)
  %c : f32[4] = aten.copy_(%x, %r)
  return %e
)";

TEST(ReinplaceInputs, EpiloguesGoBackToWhereTheValueIsComputed) {
  ir::Graph graph = graph_of(kFailureBeforeCopy);
  PassContext context;
  reinplace_inputs(graph, context);
  EXPECT_EQ(operators_of(graph), "aten.add_.Tensor aten.embedding ");
}

TEST(ReinplaceInputs, AnInputThatIsWrittenWhereItStandsConcernsNoOther) {
  constexpr const char* kBody = R"ir(
    op "my::update(Tensor(a!) x) -> ()" traits()
    input %x : f32[4] static "x"
    input %y : f32[4] static "y"
    input %w : f32[8, 4] parameter "w"
    input %i : i64[2] user "i"
    %r : f32[4] = aten.add.Tensor(%y, 1)
    my.update(%x)
    %s : f32[4] = aten.add.Tensor(%x, 1)
    %e : f32[2, 4] = aten.embedding(%w, %i)
    %c : f32[4] = aten.copy_(%y, %r)
    %d : f32[4] = aten.copy_(%x, %s)
    return %e
  )ir";
  ir::Graph graph = graph_of(kBody);
  PassContext context;
  reinplace_inputs(graph, context);
  EXPECT_EQ(operators_of(graph), "aten.add_.Tensor my.update aten.add.Tensor aten.embedding aten.copy_ ");
}

TEST(ReinplaceInputs, CopiesOfTheProgramDoNotMoveAheadOfFailures) {
  ir::Graph graph = graph_of(kFailureBeforeCopy);
  PassContext context;
  context.copy_epilogues = false;
  EXPECT_EQ(reinplace_inputs(graph, context), 0);
  EXPECT_EQ(operators_of(graph), "aten.add.Tensor aten.embedding aten.copy_ ");
}

TEST(ReinplaceInputs, ASecondRunMovesNothingThatTheFirstKept) {
  ir::Graph graph = graph_of(R"(
    input %x : f32[4] static "x"
    input %w : f32[8, 4] parameter "w"
    input %i : i64[2] user "i"
    %r : f32[4] = aten.add.Tensor(%x, 1)
    %e : f32[2, 4] = aten.embedding(%w, %i)
    %n : f32[4] = aten.copy(%x, %r)
    %c : f32[4] = aten.copy_(%x, %n)
    return %e
  )");
  PassContext context;
  EXPECT_GT(reinplace_inputs(graph, context), 0);
  EXPECT_FALSE(context.copy_epilogues);
  const std::string kept = "aten.add.Tensor aten.embedding aten.copy_ ";
  EXPECT_EQ(operators_of(graph), kept);
  EXPECT_EQ(reinplace_inputs(graph, context), 0);
  EXPECT_EQ(operators_of(graph), kept);
}

TEST(ReinplaceInputs, SaysWhyACopyWasKept) {
  ir::Graph graph = graph_of(R"(
    input %x : f32[4] static "x"
    %r : f32[4] = aten.add.Tensor(%x, 1)
    %o : f32[4] = aten.exp(%x)
    %c : f32[4] = aten.copy_(%x, %r) @ "copy__1" ""
    return %o
  )");
  PassContext context;
  reinplace_inputs(graph, context);
  ASSERT_EQ(context.remarks.size(), 1u);
  EXPECT_EQ(context.remarks[0].node, "copy__1");
  EXPECT_EQ(context.remarks[0].message, "copied back: the old value is used after the write");
}

TEST(ReinplaceInputs, ScattersIntoOtherStridesStay) {
  ir::Graph graph = graph_of(R"(
    input %x : f32[4, 4]{1, 4} static "x"
    input %s : f32[2, 4] user "s"
    %r : f32[4, 4] = aten.slice_scatter(%x, %s, 0, 0, 2)
    %c : f32[4, 4]{1, 4} = aten.copy_(%x, %r)
    return
  )");
  PassContext context;
  EXPECT_EQ(reinplace_inputs(graph, context), 0);
}

TEST(RemoveCopies, FunctionalCopiesGoOnceEveryWriteStandsInItsPlace) {
  const char* const body = R"(
    input %x : f32[4] user "x"
    input %y : f32[4] user "y"
    %a : f32[4] = aten.copy(%x, %y)
    %o : f32[4] = aten.exp(%a)
    return %o
  )";
  PassContext context;
  ir::Graph before = graph_of(body);
  EXPECT_EQ(remove_copies(before, context), 0);
  context.copy_epilogues = false;
  ir::Graph after = graph_of(body);
  EXPECT_EQ(remove_copies(after, context), 1);
}

}  // namespace
}  // namespace npugraph::passes
