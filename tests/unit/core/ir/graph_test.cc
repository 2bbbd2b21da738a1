// SPDX-License-Identifier: Apache-2.0
#include "ir/graph.h"

#include "base/error.h"
#include "ir_testing.h"

namespace npugraph::ir {
namespace {

Node call(std::string_view op, std::vector<Attr> args) {
  Node node;
  node.op = &ops::require(op);
  node.args = std::move(args);
  return node;
}

std::vector<std::string> names(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<std::string> result;
  for (const ValueId id : ids) result.push_back(id == kNone ? "none" : graph.value(id).name);
  return result;
}

using Names = std::vector<std::string>;

TEST(Graph, NamesAreUniqueAndPlain) {
  Graph graph;
  const auto name = [&](std::string_view wish) { return graph.value(graph.add_value(f32({}, {}), wish)).name; };
  EXPECT_EQ(name("x"), "x");
  EXPECT_EQ(name("x"), "x_1");
  EXPECT_EQ(name("x"), "x_2");
  EXPECT_EQ(name("x_1"), "x_1_1");
  EXPECT_EQ(name(""), "v");
  EXPECT_EQ(name("l.weight-0 %"), "l.weight_0__");
}

TEST(Graph, RenameFreesTheOldName) {
  Graph graph;
  const ValueId a = graph.add_value(f32({}, {}), "a");
  graph.rename(a, "b");
  EXPECT_EQ(graph.value(a).name, "b");
  EXPECT_EQ(graph.value(graph.add_value(f32({}, {}), "a")).name, "a");
  graph.rename(a, "a");
  EXPECT_EQ(graph.value(a).name, "a_1");
}

TEST(Graph, ResultsKnowTheirDefinition) {
  Graph graph;
  const ValueId x = graph.add_value(f32({4}, {1}), "x");
  const NodeId relu = graph.append(call("aten.relu", {TensorRef{x}}), {f32({4}, {1})}, "relu");
  const ValueId y = graph.node(relu).results.at(0);
  EXPECT_EQ(graph.value(y).name, "relu");
  EXPECT_EQ(graph.value(y).def, relu);
  const NodeId split =
      graph.append(call("aten.split.Tensor", {TensorRef{y}, Expr(2), Expr(0)}), {f32({2}, {1}), f32({2}, {1})}, "s");
  EXPECT_EQ(names(graph, graph.node(split).results), (Names{"s_0", "s_1"}));
  EXPECT_EQ(graph.value(graph.node(split).results[1]).result, 1);
}

TEST(Graph, UndefinedResultsStayUndefined) {
  Graph graph;
  Node node = call("aten.var_mean.correction", {});
  node.results = {kNone, 0};
  const NodeId id = graph.append(std::move(node), {f32({}, {})}, "m");
  EXPECT_EQ(names(graph, graph.node(id).results), (Names{"none", "m_1"}));
}

TEST(Graph, NumberOfTypesMustFitResults) {
  Graph graph;
  Node node = call("aten.var_mean.correction", {});
  node.results = {kNone, 0};
  EXPECT_THROW(graph.append(std::move(node), {f32({}, {}), f32({}, {})}, "m"), InternalError);
}

TEST(Graph, InsertBeforePutsANodeIntoTheOrder) {
  Graph graph = graph_of("input %x : f32[4]  %a : f32[4] = aten.relu(%x)  return %a");
  const NodeId first = graph.order().front();
  const NodeId added = graph.insert_before(first, call("aten.neg", {TensorRef{0}}), {f32({4}, {1})}, "n");
  EXPECT_EQ(graph.order(), (std::vector<NodeId>{added, first}));
}

TEST(Graph, ReplaceUsesReachesListsAndOutputs) {
  Graph graph = graph_of("input %x : f32[4]  input %y : f32[4]  %c : f32[8] = aten.cat([%x, %x])  return %c, %x");
  graph.replace_uses(value_named(graph, "x"), value_named(graph, "y"));
  EXPECT_EQ(names(graph, operands(def_of(graph, "c"))), (Names{"y", "y"}));
  EXPECT_EQ(std::get<TensorRef>(graph.outputs[1]).id, value_named(graph, "y"));
}

TEST(Graph, ManyReplacementsFollowChains) {
  Graph graph = graph_of("input %x : f32[4]  %a : f32[4] = aten.relu(%x)  %b : f32[4] = aten.neg(%a)  return %b");
  std::vector<ValueId> replacement(graph.num_values(), kNone);
  replacement[value_named(graph, "b")] = value_named(graph, "a");
  replacement[value_named(graph, "a")] = value_named(graph, "x");
  graph.replace_uses(replacement);
  EXPECT_EQ(std::get<TensorRef>(graph.outputs[0]).id, value_named(graph, "x"));
}

TEST(Graph, ReplaceUsesRefusesAnotherType) {
  Graph graph = graph_of("input %x : f32[4]  input %y : f32[4]{2}  return %x");
  EXPECT_THROW(graph.replace_uses(0, 1), InternalError);
}

TEST(Graph, ReorderKeepsDefinitionsBeforeUses) {
  Graph graph = graph_of(
      "input %x : f32[4]  %a : f32[4] = aten.relu(%x)  %b : f32[4] = aten.neg(%x)  %c : f32[4] = aten.neg(%a)  return "
      "%c");
  auto order = graph.order();
  std::swap(order[0], order[1]);
  graph.reorder(order);
  EXPECT_EQ(graph.order(), order);
  std::swap(order[1], order[2]);
  EXPECT_THROW(graph.reorder(order), InternalError);
  order[1] = order[0];
  EXPECT_THROW(graph.reorder(order), InternalError);
}

TEST(Graph, CompactDropsDeadNodes) {
  Graph graph = graph_of("input %x : f32[4]  %a : f32[4] = aten.relu(%x)  %b : f32[4] = aten.neg(%x)  return %b");
  const NodeId dead = graph.order().front();
  graph.erase(dead);
  EXPECT_EQ(find_uses(graph).position[dead], -1);
  EXPECT_TRUE(find_uses(graph).users[0] == std::vector<NodeId>{graph.order().back()});
  graph.compact();
  EXPECT_EQ(graph.order().size(), 1u);
}

TEST(Graph, CopiesAreIndependent) {
  Graph graph = graph_of("input %x : f32[4]  %a : f32[4] = aten.relu(%x)  return %a");
  Graph copy = graph;
  copy.append(call("aten.neg", {TensorRef{0}}), {f32({4}, {1})}, "a");
  copy.node(0).dead = true;
  EXPECT_EQ(graph.num_nodes(), 1);
  EXPECT_FALSE(graph.node(0).dead);
  EXPECT_EQ(graph.value(graph.add_value(f32({}, {}), "a")).name, "a_1");
}

TEST(Graph, KnowsInputsAndConstants) {
  const Graph graph = graph_of("input %x : f32[4]  const %c : f32[1] = [1.0]  %a : f32[4] = aten.relu(%x)  return %a");
  EXPECT_TRUE(graph.is_input(value_named(graph, "x")));
  EXPECT_FALSE(graph.is_input(value_named(graph, "c")));
  EXPECT_FALSE(graph.is_input(value_named(graph, "a")));
  EXPECT_TRUE(graph.is_constant(value_named(graph, "c")));
}

TEST(Uses, UsersStandOnceAndInOrder) {
  const Graph graph = graph_of(
      "input %x : f32[4]  %a : f32[4] = aten.add.Tensor(%x, %x)  %b : f32[4] = aten.mul.Tensor(%a, %x)  return %b, %b, "
      "%x");
  const Uses uses = find_uses(graph);
  EXPECT_EQ(uses.users[value_named(graph, "x")], graph.order());
  EXPECT_EQ(uses.output_uses[value_named(graph, "b")], 2);
  EXPECT_EQ(uses.output_uses[value_named(graph, "a")], 0);
}

TEST(Operands, AbsentTensorsAreLeftOut) {
  const Graph graph = graph_of(
      "input %x : f32[4, 4]  input %i : i64[2]  %a : f32[4, 2] = aten.index.Tensor(%x, [none, %i])  return %a");
  EXPECT_EQ(names(graph, operands(def_of(graph, "a"))), (Names{"x", "i"}));
}

TEST(Operands, WritesAndWhatIsReturned) {
  const Graph graph = graph_of(
      "input %x : f32[4]  input %y : f32[4]  input %m : f32[4]\n"
      "%a : f32[4] = aten.add_.Tensor(%x, %y)\n"
      "%b : f32[4] = aten.add.Tensor(%x, %y)\n"
      "op \"my::two(Tensor(a!) p, Tensor(b!)[] q, Tensor r) -> (Tensor(a!), Tensor(b!)[], Tensor)\"\n"
      "%c, %d, %e, %f : f32[4], f32[4], f32[4], f32[4] = my.two(%x, [%y, %m], %b)\n"
      "return %f");
  const Node& add = def_of(graph, "a");
  EXPECT_EQ(names(graph, written_operands(add)), Names{"x"});
  EXPECT_EQ(names(graph, returned_operands(add)), Names{"x"});
  EXPECT_TRUE(written_operands(def_of(graph, "b")).empty());
  EXPECT_EQ(names(graph, returned_operands(def_of(graph, "b"))), Names{"none"});
  const Node& two = def_of(graph, "c");
  EXPECT_EQ(names(graph, written_operands(two)), (Names{"x", "y", "m"}));
  EXPECT_EQ(names(graph, returned_operands(two)), (Names{"x", "y", "m", "none"}));
  EXPECT_EQ(returns_of_results(two.op->schema, 4), (std::vector<int32_t>{0, 1, 1, 2}));
}

}  // namespace
}  // namespace npugraph::ir
