// SPDX-License-Identifier: Apache-2.0
#include "lower/super_kernels.h"

#include "lower/lower_testing.h"
#include "program/parts.h"

namespace npugraph::lower {
namespace {

using program::Task;
using program::TaskKind;

Task mark(const char* end, Attr name) {
  return {.name = std::string("npugraph_ex.super_kernel_scope_") + end, .args = {std::move(name)}};
}
Task begin(std::string name) { return mark("begin", std::move(name)); }
Task end(std::string name) { return mark("end", std::move(name)); }
Task loop(std::string name, int32_t stream = 0) {
  return {.kind = TaskKind::kLoop, .name = std::move(name), .args = {std::string()}, .stream = stream};
}
Task aten(std::string name) { return {.name = std::move(name), .source = "model.py:3"}; }

struct Merged {
  program::Program program;
  std::vector<TaskNote> notes;
  std::vector<ScopeResult> scopes;
};

Merged merged(std::vector<Task> tasks, bool merges = true) {
  Merged out;
  out.program.tasks = std::move(tasks);
  for (size_t i = 0; i < out.program.tasks.size(); ++i)
    out.notes.push_back({.node = static_cast<ir::NodeId>(i), .saved_bytes = 1});
  out.scopes = merge_scopes(out.program, out.notes, {.merges = merges});
  EXPECT_EQ(out.notes.size(), out.program.tasks.size());
  return out;
}

TEST(MergeScopes, AdjacentTasksOfAScopeBecomeOne) {
  const Merged out = merged({loop("a"), begin("s"), loop("b"), loop("c"), loop("d"), end("s"), loop("e")});
  EXPECT_EQ(tasks_of(out.program), "a super_kernel.s e");
  EXPECT_EQ(program::parts_of(out.program.tasks[1]).tasks.size(), 3u);
  EXPECT_EQ(out.notes[1].saved_bytes, 3);
  ASSERT_EQ(out.scopes.size(), 1u);
  EXPECT_EQ(out.scopes[0].tasks, 3);
  EXPECT_EQ(out.scopes[0].super_kernels, 1);
  EXPECT_EQ(out.scopes[0].left, 0);
  EXPECT_TRUE(out.scopes[0].cuts.empty());
}

TEST(MergeScopes, WaitsAreThoseOfAllParts) {
  Task first = loop("b"), second = loop("c"), later = loop("d", 1);
  first.waits = {0};
  second.waits = {0, 2};
  later.waits = {6};
  const Merged out =
      merged({loop("x", 1), begin("t"), loop("y", 2), end("t"), begin("s"), first, second, end("s"), later});
  EXPECT_EQ(tasks_of(out.program), "x y super_kernel.s d");
  EXPECT_EQ(out.program.tasks[2].waits, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(out.program.tasks[3].waits, std::vector<int32_t>{2});
}

TEST(MergeScopes, OtherLimitsOfWorkersCutAScope) {
  Task limited = loop("b");
  limited.limits = {.cube = 1, .vector = 2};
  const Merged out = merged({begin("s"), loop("a"), limited, limited, end("s")});
  EXPECT_EQ(tasks_of(out.program), "a super_kernel.s");
  EXPECT_EQ(out.program.tasks[1].limits, limited.limits);
}

TEST(MergeScopes, WhatTheHostRunsCutsAScope) {
  const Merged out = merged({begin("s"), loop("a"), loop("b"), aten("aten.topk"), loop("c"), loop("d"),
                             aten("aten.sort"), loop("e"), end("s")});
  EXPECT_EQ(tasks_of(out.program), "super_kernel.s aten.topk super_kernel.s aten.sort e");
  ASSERT_EQ(out.scopes.size(), 1u);
  EXPECT_EQ(out.scopes[0].tasks, 7);
  EXPECT_EQ(out.scopes[0].super_kernels, 2);
  EXPECT_EQ(out.scopes[0].left, 3);
  EXPECT_EQ(out.scopes[0].cuts, (std::vector<std::string>{"aten.topk at model.py:3", "aten.sort at model.py:3"}));
}

TEST(MergeScopes, ScopesAreToldApartByName) {
  EXPECT_EQ(tasks_of(merged({begin("s"), loop("a"), end("s"), begin("s"), loop("b"), end("s")}).program),
            "super_kernel.s");
  EXPECT_EQ(tasks_of(merged({begin("s"), loop("a"), end("s"), begin("t"), loop("b"), end("t")}).program), "a b");
  EXPECT_EQ(tasks_of(merged({begin("s"), loop("a"), end("s"), loop("b"), begin("s"), loop("c"), end("s")}).program),
            "a b c");
  const Merged nested =
      merged({begin("s"), loop("a"), loop("b"), begin("t"), loop("c"), loop("d"), end("t"), loop("e"), end("s")});
  EXPECT_EQ(tasks_of(nested.program), "super_kernel.s super_kernel.t e");
}

TEST(MergeScopes, AnEmptyNameKeepsTasksOut) {
  const Merged out = merged({begin("s"), loop("a"), loop("b"), begin(""), loop("c"), end(""), loop("d"), end("s")});
  EXPECT_EQ(tasks_of(out.program), "super_kernel.s c d");
}

TEST(MergeScopes, OtherStreamsAreOtherTasks) {
  EXPECT_EQ(tasks_of(merged({begin("s"), loop("a"), loop("b", 1), loop("c", 1), end("s")}).program),
            "a super_kernel.s");
}

TEST(MergeScopes, WithoutMergingOnlyTheMarksGo) {
  const Merged out = merged({begin("s"), loop("a"), loop("b"), end("s")}, false);
  EXPECT_EQ(tasks_of(out.program), "a b");
  EXPECT_TRUE(out.scopes.empty());
}

TEST(MergeScopes, SymbolsFollowTheirTasks) {
  Task defines = aten("aten.nonzero");
  defines.defines = {{.symbol = 0}};
  Merged out;
  out.program.symbols = {{.name = "u0", .task = 3}};
  out.program.tasks = {begin("s"), loop("a"), loop("b"), defines, end("s")};
  out.notes.resize(5);
  merge_scopes(out.program, out.notes, {});
  EXPECT_EQ(tasks_of(out.program), "super_kernel.s aten.nonzero");
  EXPECT_EQ(out.program.symbols[0].task, 1);
}

}  // namespace
}  // namespace npugraph::lower
