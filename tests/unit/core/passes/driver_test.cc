// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/error.h"
#include "passes/pass.h"
#include "passes/pass_testing.h"

namespace npugraph::passes {
namespace {

constexpr const char* kUnused = R"(
  input %x : f32[4] user "x"
  %a : f32[4] = aten.exp(%x)
  %b : f32[4] = aten.sin(%x) @ "sin_1" "model.py:3"
  return %b
)";

std::string message_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(Driver, CountsHitsAndDropsDeadNodes) {
  ir::Graph graph = graph_of(kUnused);
  PassContext context;
  const auto records = run_passes(graph, {find_pass("dce"), find_pass("cse")}, context, {});
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].name, "dce");
  EXPECT_EQ(records[0].hits, 1);
  EXPECT_EQ(records[1].hits, 0);
  EXPECT_EQ(graph.order().size(), 1u);
}

TEST(Driver, LeavesDisabledPassesOutAndSaysSo) {
  ir::Graph graph = graph_of(kUnused);
  PassContext context;
  std::vector<std::string> seen;
  DriverOptions options{.disabled = {"dce"}};
  options.after = [&](const Pass& pass, const ir::Graph&, const PassRecord& record) {
    seen.push_back(std::string(pass.name) + (record.disabled ? " off" : " on"));
  };
  run_passes(graph, {find_pass("dce"), find_pass("cse")}, context, options);
  EXPECT_EQ(seen, (std::vector<std::string>{"dce off", "cse on"}));
  EXPECT_EQ(graph.order().size(), 2u);
}

TEST(Driver, RefusesUnknownNamesAndListsTheKnownOnes) {
  ir::Graph graph = graph_of(kUnused);
  PassContext context;
  const DriverOptions options{.disabled = {"ccse"}};
  EXPECT_THROW(run_passes(graph, {}, context, options), UserError);
  const std::string message = message_of([] { find_pass("ccse"); });
  EXPECT_TRUE(message.starts_with("unknown pass 'ccse'; the passes are bound_attention, canonicalise, cse, "))
      << message;
  for (const Pass& pass : all_passes()) EXPECT_NE(message.find(pass.name), std::string::npos) << pass.name;
}

TEST(Driver, LabelsRemarksWithThePass) {
  ir::Graph graph = graph_of(kUnused);
  PassContext context;
  const auto note = [](ir::Graph& g, PassContext& c) {
    c.remark(g.node(g.order().back()), "seen");
    return 0;
  };
  run_passes(graph, {{"note", note, "remarks on the last node"}}, context, {});
  ASSERT_EQ(context.remarks.size(), 1u);
  EXPECT_EQ(context.remarks[0].pass, "note");
  EXPECT_EQ(context.remarks[0].node, "sin_1");
  EXPECT_EQ(context.remarks[0].message, "seen");
}

TEST(Driver, ReportsAPassThatBreaksTheGraphWithItsText) {
  const auto breaking = [](ir::Graph& g, PassContext&) {
    g.erase(g.order().back());
    return 1;
  };
  const auto run = [&] {
    ir::Graph graph = graph_of(kUnused);
    PassContext context;
    run_passes(graph, {{"breaking", breaking, "erases what is returned"}}, context, {});
  };
  EXPECT_THROW(run(), InternalError);
  const std::string message = message_of(run);
  EXPECT_NE(message.find("after the pass breaking"), std::string::npos) << message;
  EXPECT_NE(message.find("npugraph.graph 1 @test"), std::string::npos) << message;
}

TEST(Driver, KnowsEveryPassByName) {
  for (const Pass& pass : all_passes()) EXPECT_EQ(find_pass(pass.name).run, pass.run) << pass.name;
}

}  // namespace
}  // namespace npugraph::passes
