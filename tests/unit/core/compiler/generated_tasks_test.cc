// SPDX-License-Identifier: Apache-2.0
// Code for the generated tasks of a Program, and the tasks that replace refused ones.
#include "compiler/generated_tasks.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "compiler/compiler_testing.h"

namespace npugraph::compiler {
namespace {

// Two chains with equal code, and another chain.
constexpr std::string_view kChains = R"(npugraph.graph 1 @chains {
  input %x : f32[40] user "x"
  input %y : f32[40] user "y"
  %a : f32[40] = aten.neg(%x)
  %b : f32[40] = aten.add.Tensor(%a, %y)
  %c : f32[40] = aten.neg(%y)
  %d : f32[40] = aten.add.Tensor(%c, %x)
  %e : f32[40] = aten.abs(%x)
  %f : f32[40] = aten.mul.Tensor(%e, %y)
  return %b, %d, %f
})";

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::vector<std::string> tasks_of(const Artifact& artifact) {
  std::vector<std::string> lines;
  for (const TaskInfo& task : artifact.tasks()) lines.push_back(task.name + ": " + task.reason);
  return lines;
}

TEST(GeneratedTasks, OnlyWhatIsRefusedRunsNodeByNode) {
  const auto refuse_products = [](const program::Program& program, const program::Task& task) {
    if (task.name == "loop.abs.mul") throw UserError("too hard");
    return make_task(program, task);
  };
  const NoCatalog catalog;  // the artifact asks it again for its text
  const auto artifact = compile_text(kChains, catalog, {}, refuse_products);
  const std::vector<std::string> expected = {
      "loop.neg.add: ", "loop.neg.add: ", "kernel.unary_abs: no generated code: too hard",
      "kernel.binary_mul: no generated code: too hard"};
  EXPECT_EQ(tasks_of(*artifact), expected);
  EXPECT_NE(artifact->text("lower").find("kernel.binary_mul"), std::string::npos);
}

// A product with an epilogue, products of one factor, and two operators without a kernel.
constexpr std::string_view kJoined = R"(npugraph.graph 1 @joined {
  input %x : f32[96, 256] user "x"
  input %w : f32[256, 192] user "w"
  input %v : f32[256, 192] user "v"
  %m : f32[96, 192] = aten.mm(%x, %w)
  %r : f32[96, 192] = aten.relu(%m)
  %k : f32[96, 192] = aten.mm(%x, %v)
  %e : f32[96, 256] = aten.exp(%x)
  %g : f32[96, 256] = aten.gelu(%e) @ "activation"
  return %r, %k, %g
})";

// The tasks of kJoined on a host without operators where no code can be made for tasks of these names. Whether groups
// of them pay depends on the processor.
std::vector<std::string> tasks_without(const std::set<std::string>& refused) {
  const NoCatalog catalog;
  CompileRequest request;
  request.group = false;
  const auto make = [&](const program::Program& program, const program::Task& task) {
    if (refused.contains(task.name)) throw UserError("too hard");
    return make_task(program, task);
  };
  return tasks_of(*compile_text(kJoined, catalog, {}, make, request));
}

TEST(GeneratedTasks, WhatNothingElseRunsIsThenCodeByItself) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(tasks_without({}), (Lines{"matmul.mm.relu.mm: ", "loop.exp.gelu: "}));
  EXPECT_EQ(tasks_without({"loop.exp.gelu"}), (Lines{"matmul.mm.relu.mm: ", "loop.exp: ", "loop.gelu: "}));
  EXPECT_EQ(tasks_without({"matmul.mm.relu.mm"}), (Lines{"matmul.mm.mm: ", "loop.relu: ", "loop.exp.gelu: "}));
  EXPECT_EQ(tasks_without({"matmul.mm.relu.mm", "matmul.mm.mm"}),
            (Lines{"matmul.mm: ", "loop.relu: ", "matmul.mm: ", "loop.exp.gelu: "}));
}

TEST(GeneratedTasks, WhatIsRefusedByItselfIsAnErrorThatNamesIt) {
  try {
    tasks_without({"loop.exp.gelu", "loop.gelu"});
    FAIL() << "nothing was refused";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "operator aten.gelu (activation) cannot run on this host: no generated code: too hard");
  }
}

TEST(GeneratedTasks, EqualCodeIsMadeOnce) {
  const std::string same = replace_all(std::string(kChains), "40", "48");  // no other test uses these sizes
  const std::string other = std::string(same).replace(same.find("aten.neg(%y)"), 8, "aten.abs");
  for (const auto& [text, builds] : {std::pair(same, 2), {same, 0}, {other, 1}}) {
    const auto counters = compile_text(text, NoCatalog(), {}, make_task)->counters();
    EXPECT_EQ(counters.at("kernel_builds"), builds);
    EXPECT_EQ(counters.at("kernel_hits"), 3 - builds);
    EXPECT_EQ(counters.at("kernel_build_ns") > 0, builds > 0);
  }
}

TEST(GeneratedTasks, ExplainShowsTheShareAndTheScores) {
  const std::string page = compile_text(kChains, NoCatalog(), {}, make_task)->explain();
  EXPECT_NE(page.find("\nGenerated code\n  3 of 3 tasks"), std::string::npos) << page;
  EXPECT_NE(page.find("   2x loop.neg.add: fusion saves 640 B\n     1x loop.abs.mul: fusion saves 320 B\n"),
            std::string::npos)
      << page;
}

TEST(GeneratedTasks, ExplainShowsWhatWasLeftApart) {
  const auto artifact = compile_text(R"(npugraph.graph 1 @test {
    input %x : f32[200, 300] user "x"
    %a : f32[200, 300] = aten.exp(%x)
    %r : f32[200] = aten.sum.dim_IntList(%a, [1])
    %b : f32[200, 300] = aten.tanh(%a)
    %c : f32[300] = aten.sum.dim_IntList(%b, [0])
    return %r, %c
  })",
                                     NoCatalog(), {}, make_task);
  const std::string page = artifact->explain();
  EXPECT_NE(page.find("1x left apart, 234.4 KiB are loaded again: "), std::string::npos) << page;
}

}  // namespace
}  // namespace npugraph::compiler
