// SPDX-License-Identifier: Apache-2.0
// The bytes that running nodes together saves, and the nodes that must not move.
#include "lower/clusters/score.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "lower/clusters/legality.h"
#include "ops/table.h"

namespace npugraph::lower {
namespace {

ir::Graph parsed(const std::string& body) {
  ir::Graph graph =
      ir::parse("npugraph.graph 1 @test {\ninput %x : f32[8, 16] user \"x\"\n" + body + "\n}", "test", ops::registry());
  EXPECT_EQ(ir::verify(graph), "");
  return graph;
}

TEST(Score, CountsWhatIsNeitherStoredNorLoaded) {
  const ir::Graph graph = parsed(R"(
    %a : f32[8, 16] = aten.neg(%x)
    %b : f32[8, 16] = aten.exp(%a)
    %c : f32[8, 16] = aten.add.Tensor(%a, %b)
    return %b, %c)");
  const ir::Uses uses = ir::find_uses(graph);
  constexpr int64_t kTensor = 8 * 16 * 4;
  const ir::ValueId b = graph.node(1).results[0], c = graph.node(2).results[0];
  EXPECT_EQ(bytes_saved(graph, uses, {0}, {graph.node(0).results[0]}), Expr(0));
  EXPECT_EQ(bytes_saved(graph, uses, {0, 1, 2}, {b, c}), Expr(4 * kTensor)) << "%a is not stored, three loads";
  EXPECT_EQ(bytes_between(graph, graph.node(2), [](ir::NodeId id) { return id == 1; }), Expr(kTensor));
}

TEST(Score, CountsInSymbols) {
  const ir::Graph graph = ir::parse(R"(npugraph.graph 1 @test {
    symbol s0 : int
    input %x : f32[s0, 16] user "x"
    %a : f32[s0, 16] = aten.neg(%x)
    %b : f32[s0, 16] = aten.exp(%a)
    return %b
  })",
                                    "test", ops::registry());
  const Expr bytes = Expr::symbol("s0") * 16 * 4;
  EXPECT_EQ(bytes_saved(graph, ir::find_uses(graph), {0, 1}, {graph.node(1).results[0]}), 2 * bytes);
  EXPECT_EQ(bytes_between(graph, graph.node(1), [](ir::NodeId id) { return id == 0; }), bytes);
}

TEST(Score, TiesKeepTheirOrder) {
  std::vector<std::pair<int, Expr>> scored = {{7, 10}, {3, 20}, {9, 10}, {1, 20}};
  sort_by_score(scored);
  EXPECT_EQ(scored, (std::vector<std::pair<int, Expr>>{{3, 20}, {1, 20}, {7, 10}, {9, 10}}));
}

TEST(Score, SymbolsAreOfUsualSize) {
  const Expr s0 = Expr::symbol("s0");
  std::vector<std::pair<int, Expr>> scored = {{7, 2 * kUsualSize - 1}, {3, 2 * s0}, {9, 2 * kUsualSize + 1}};
  sort_by_score(scored);
  EXPECT_EQ(scored, (std::vector<std::pair<int, Expr>>{{9, 2 * kUsualSize + 1}, {3, 2 * s0}, {7, 2 * kUsualSize - 1}}));
}

// Returns why node 0 must not run in the place of node `at`; empty if it may.
std::string objection(const std::string& body, ir::NodeId at) {
  const ir::Graph graph = parsed(body);
  const ir::AliasInfo aliases(graph);
  const ir::Uses uses = ir::find_uses(graph);
  const NodeKinds kinds(graph);
  const char* reason = Legality(graph, aliases, uses, kinds).objection({0}, at);
  return reason == nullptr ? "" : reason;
}

TEST(Legality, NodesMoveToTheirReaders) {
  EXPECT_EQ(objection("%a : f32[8, 16] = aten.neg(%x)\n%b : f32[8, 16] = aten.exp(%a)\nreturn %b", 1), "");
}

TEST(Legality, NotBehindOtherReaders) {
  EXPECT_EQ(objection(R"(
    %a : f32[8, 16] = aten.neg(%x)
    %s, %i : f32[8, 16], i64[8, 16] = aten.sort(%a)
    %b : f32[8, 16] = aten.exp(%a)
    return %b, %s)",
                      2)
                .substr(0, 14),
            "something else");
}

TEST(Legality, NotBehindWritesOfWhatTheyRead) {
  EXPECT_EQ(objection(R"(
    %a : f32[8, 16] = aten.neg(%x)
    %u : f32[8, 16] = aten.mul_.Tensor(%x, 2)
    %b : f32[8, 16] = aten.exp(%a)
    return %b)",
                      2),
            "what is read is written in between");
}

TEST(Legality, FailuresKeepTheirOrder) {
  EXPECT_EQ(objection(R"(
    input %i : i64[8] user "i"
    input %z : f32[4] user "z"
    %a : f32[8, 16] = aten.index_select(%x, 0, %i)
    %u : f32[4] = aten.mul_.Tensor(%z, 2)
    %b : f32[8, 16] = aten.exp(%a)
    return %b)",
                      2),
            "a failure would come too late");
}

TEST(Legality, WhatIsWrittenIsReadOnlyWhereItIsWritten) {
  EXPECT_EQ(objection(R"(
    %s : f32[8, 16] = aten._softmax(%x, -1, false)
    %u : f32[8, 16] = aten.copy_(%x, %s)
    return)",
                      1),
            "what it writes is read elsewhere in the loop");
}

}  // namespace
}  // namespace npugraph::lower
