// SPDX-License-Identifier: Apache-2.0
// Violations that the text form cannot express; tests/ir/ir/verify.ir holds the others.
#include "base/error.h"
#include "ir_testing.h"

namespace npugraph::ir {
namespace {

Graph relu() {
  return graph_of(
      "symbol s0 : int  input %x : f32[s0]  const %c : f32[2] = [1.0, 2.0]  %a : f32[s0] = aten.relu(%x)  return %a");
}

TEST(Verify, AcceptsAValidGraph) { EXPECT_EQ(verify(relu()), ""); }

TEST(Verify, NamesTheNode) {
  Graph graph = relu();
  graph.node(0).args.clear();
  EXPECT_EQ(verify(graph), "%a = aten.relu: 0 arguments, the schema has 1: aten::relu(Tensor self) -> Tensor");
}

TEST(Verify, ValuesMustExist) {
  Graph graph = relu();
  graph.node(0).args[0] = TensorRef{99};
  EXPECT_EQ(verify(graph), "%a = aten.relu: value 99 does not exist");
  graph.node(0).args[0] = TensorRef{-7};
  EXPECT_EQ(verify(graph), "%a = aten.relu: value -7 does not exist");
}

TEST(Verify, DefinitionsAreLinked) {
  Graph graph = relu();
  graph.value(2).def = 5;
  EXPECT_EQ(verify(graph), "%a = aten.relu: %a says that node 5 defines it");
}

TEST(Verify, AValueIsDefinedOnce) {
  Graph graph = relu();
  graph.inputs.push_back(graph.inputs.back());
  EXPECT_EQ(verify(graph), "%x is defined twice");
}

TEST(Verify, NumbersAreResultsWithoutValues) {
  const auto returning = [](const std::string& results) {
    return verify(graph_of(std::string("symbol u0 : int  symbol u1 : int\n") +
                           "op \"t::f(Tensor x) -> (int, Tensor, int)\" traits()\n"
                           "input %x : f32[4]  " +
                           results + " = t.f(%x) defines(u0 = result 0, u1 = result 2)  return u0, u1"));
  };
  EXPECT_EQ(returning("none, %b, none : none, f32[4], none"), "");
  EXPECT_EQ(returning("none, %b : none, f32[4]"), "") << "at the end they may be left out";
  EXPECT_THROW(returning("%b : f32[4]"), UserError);
}

TEST(Verify, NamesAreUnique) {
  Graph graph = relu();
  graph.value(2).name = "x";
  EXPECT_EQ(verify(graph), "%x = aten.relu: two values are called %x");
}

TEST(Verify, ErasedResultsMustNotBeUsed) {
  Graph graph = relu();
  graph.erase(0);
  EXPECT_EQ(verify(graph), "return: %a is used before its definition");
}

TEST(Verify, NodesHaveOperators) {
  Graph graph = relu();
  graph.node(0).op = nullptr;
  EXPECT_EQ(verify(graph), "node without operator: node 0");
}

TEST(Verify, SizesAndStridesFitEachOther) {
  Graph graph = relu();
  std::get<TensorType>(graph.value(0).type).strides.clear();
  EXPECT_EQ(verify(graph), "%x has 1 sizes and 0 strides");
}

TEST(Verify, SymbolsAreDeclared) {
  Graph graph = relu();
  graph.symbols.clear();
  EXPECT_EQ(verify(graph), "symbol 's0' is not declared");
}

TEST(Verify, SymbolsKeepTheirKind) {
  Graph graph = relu();
  graph.symbols[0].kind = ScalarKind::kFloat;
  EXPECT_EQ(verify(graph), "symbol 's0' is used as another kind");
}

TEST(Verify, ConstantsHaveTheirBytes) {
  Graph graph = relu();
  auto data = std::make_shared<ConstantData>(*graph.constants[0].data);
  data->bytes = 4;
  graph.constants[0].data = data;
  EXPECT_EQ(verify(graph), "constant %c has 4 bytes, too few for f32[2]{1}");
}

TEST(Verify, ANameMeansOneOperator) {
  auto& ops = ops::registry();
  Graph graph = relu();
  Node node = graph.node(0);
  node.results.clear();
  node.op = ops.intern("test::same(Tensor x) -> Tensor", 0);
  graph.append(node, {graph.value(0).type}, "b");
  node.results.clear();
  node.op = ops.intern("test::same(Tensor x) -> Tensor", static_cast<Traits>(Trait::kElementwise));
  graph.append(node, {graph.value(0).type}, "d");
  EXPECT_EQ(verify(graph), "%d = test.same: the graph has two different operators of this name");
}

TEST(Verify, OnlyOpaqueOperatorsHaveCallables) {
  Graph graph = relu();
  graph.node(0).callable = 0;
  EXPECT_EQ(verify(graph), "%a = aten.relu: an opaque operator, and no other, has a callable");
}

}  // namespace
}  // namespace npugraph::ir
