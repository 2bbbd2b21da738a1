// SPDX-License-Identifier: Apache-2.0
#include "passes/simplify/fold_constants.h"

#include <gtest/gtest.h>

#include "passes/pass_testing.h"

namespace npugraph::passes {
namespace {

// A host that evaluates every node to empty constants and records the operators of these nodes.
struct Host {
  std::vector<std::string> evaluated;
  std::string refused;  // the operator that it cannot evaluate

  PassContext context() {
    PassContext context;
    context.evaluate = [this](const ir::Graph& graph, ir::NodeId id) {
      const ir::Node& node = graph.node(id);
      std::vector<std::shared_ptr<const ir::ConstantData>> results;
      if (node.op->name == refused) return results;
      for (const ir::ValueId operand : ir::operands(node)) EXPECT_TRUE(graph.is_constant(operand));
      evaluated.push_back(node.op->name);
      for (size_t i = 0; i < node.results.size(); ++i) results.push_back(std::make_shared<ir::ConstantData>());
      return results;
    };
    return context;
  }
};

// Returns the operators that are left after folding `body`.
std::string fold(std::string_view body, Host& host) {
  ir::Graph graph = graph_of(body);
  PassContext context = host.context();
  fold_constants(graph, context);
  graph.compact();
  EXPECT_EQ(ir::verify(graph), "");
  return operators_of(graph);
}

std::string fold(std::string_view body) {
  Host host;
  return fold(body, host);
}

TEST(FoldConstants, FoldsChainsFromCreationAndConstants) {
  Host host;
  EXPECT_EQ(fold(R"(
    input %x : i64[3] user "x"
    const %k : i64[3] = [1, 2, 3]
    %a : i64[3] = aten.arange(3)
    %b : i64[3] = aten.mul.Tensor(%a, %k)
    %c : i64[3] = aten.neg(%b)
    %o : i64[3] = aten.add.Tensor(%x, %c)
    return %o
  )",
                 host),
            "aten.add.Tensor ");
  EXPECT_EQ(host.evaluated, (std::vector<std::string>{"aten.arange", "aten.mul.Tensor", "aten.neg"}));
}

TEST(FoldConstants, MarksWhatItMadeAsDerived) {
  ir::Graph graph = graph_of(R"(
    input %x : f32[2] user "x"
    %a : f32[2] = aten.ones([2])
    %o : f32[2] = aten.add.Tensor(%x, %a)
    return %o
  )");
  Host host;
  PassContext context = host.context();
  EXPECT_EQ(fold_constants(graph, context), 1);
  ASSERT_EQ(graph.constants.size(), 1u);
  EXPECT_TRUE(graph.constants[0].derived);
  EXPECT_EQ(graph.value(graph.constants[0].value).tensor().sizes, std::vector<Expr>{Expr(2)});
}

TEST(FoldConstants, FoldsAViewOnceForAllItsPlacesInANode) {
  Host host;
  EXPECT_EQ(fold(R"(
    input %x : i64[2, 2] user "x"
    %a : i64[4] = aten.arange(4)
    %v : i64[2, 2] = aten.view(%a, [2, 2]) view(0)
    %m : i64[2, 2] = aten.mul.Tensor(%v, %v)
    %o : i64[2, 2] = aten.add.Tensor(%x, %m)
    return %o
  )",
                 host),
            "aten.add.Tensor ");
  EXPECT_EQ(host.evaluated, (std::vector<std::string>{"aten.arange", "aten.view", "aten.mul.Tensor"}));
}

// If the source of the write were a constant, the write would move to the start, ahead of a node that may fail.
TEST(FoldConstants, KeepsThePlaceOfWrites) {
  constexpr const char* kBody = R"(
    input %x : f32[4] static "x"
    input %w : f32[8, 4] parameter "w"
    input %i : i64[2] user "i"
    %e : f32[2, 4] = aten.embedding(%w, %i)
    %z : f32[4] = aten.zeros([4])
    %k : f32[4] = aten.ones([4])
    %a : f32[4] = aten.add.Tensor(%x, %k)
    %c : f32[4] = aten.copy_(%x, %z)
    return %e, %a
  )";
  EXPECT_EQ(fold(kBody), "aten.embedding aten.zeros aten.add.Tensor aten.copy_ ");
}

TEST(FoldConstants, FoldsViewsOnlyForNodesThatReadThem) {
  Host host;
  EXPECT_EQ(fold(R"(
    input %x : f32[2, 2] user "x"
    const %k : f32[4] = [1.0, 2.0, 3.0, 4.0]
    %v : f32[2, 2] = aten.view(%k, [2, 2]) view(0)
    %t : f32[2, 2]{1, 2} = aten.t(%v) view(0)
    %o : f32[2, 2] = aten.mm(%x, %v)
    return %o
  )",
                 host),
            "aten.view aten.t aten.mm ");
  EXPECT_TRUE(host.evaluated.empty());
  EXPECT_EQ(fold(R"(
    input %x : f32[2, 2] user "x"
    const %k : f32[4] = [1.0, 2.0, 3.0, 4.0]
    %v : f32[2, 2] = aten.view(%k, [2, 2]) view(0)
    %t : f32[2, 2]{1, 2} = aten.t(%v) view(0)
    %n : f32[2, 2]{1, 2} = aten.neg(%t)
    %m : f32[2, 2] = aten.exp(%v)
    %p : f32[2, 2]{1, 2} = aten.sin(%t)
    %o : f32[2, 2] = aten.mm(%x, %n)
    %q : f32[2, 2] = aten.mm(%o, %m)
    %r : f32[2, 2] = aten.mm(%q, %p)
    return %r
  )",
                 host),
            "aten.mm aten.mm aten.mm ");
  EXPECT_EQ(host.evaluated, (std::vector<std::string>{"aten.view", "aten.t", "aten.neg", "aten.exp", "aten.sin"}));
}

TEST(FoldConstants, LeavesRandomNumbersAndUninitialisedMemory) {
  EXPECT_EQ(fold(R"(
    input %x : f32[2] user "x"
    %r : f32[2] = aten.rand([2])
    %e : f32[2] = aten.empty.memory_format([2])
    %o : f32[2] = aten.add.Tensor(%x, %r)
    %p : f32[2] = aten.add.Tensor(%o, %e)
    return %p
  )"),
            "aten.rand aten.empty.memory_format aten.add.Tensor aten.add.Tensor ");
}

TEST(FoldConstants, LeavesMemoryThatIsReturnedWrittenOrHandedOut) {
  EXPECT_EQ(fold(R"ir(
    op "my::keep(Tensor x) -> ()" traits(opaque)
    input %x : f32[4] user "x"
    %a : f32[4] = aten.ones([4])
    %v : f32[2, 2] = aten.view(%a, [2, 2]) view(0)
    %b : f32[4] = aten.zeros([4])
    %w : f32[4] = aten.add_.Tensor(%b, %x)
    %c : f32[4] = aten.full([4], 2.0)
    my.keep(%c) callable(0)
    return %v
  )ir"),
            "aten.ones aten.view aten.zeros aten.add_.Tensor aten.full my.keep ");
}

TEST(FoldConstants, LeavesConstantsThatAreWritten) {
  EXPECT_EQ(fold(R"(
    input %x : f32[2] static "x"
    const %k : f32[2] = [1.0, 2.0]
    %w : f32[2] = aten.add_.Tensor(%k, %x)
    %n : f32[2] = aten.neg(%k)
    %o : f32[2] = aten.add.Tensor(%x, %n)
    return %o
  )"),
            "aten.add_.Tensor aten.neg aten.add.Tensor ");
}

TEST(FoldConstants, LeavesSymbolicSizesAndScalars) {
  EXPECT_EQ(fold(R"(
    symbol s0 : int [2, 64]
    input %x : f32[s0] user "x"
    input s0 : int user "s0"
    const %k : f32[1] = [1.0]
    %a : f32[s0] = aten.ones([s0])
    %b : f32[1] = aten.mul.Tensor(%k, s0)
    %o : f32[s0] = aten.add.Tensor(%x, %a)
    %p : f32[s0] = aten.add.Tensor(%o, %b)
    return %p
  )"),
            "aten.ones aten.mul.Tensor aten.add.Tensor aten.add.Tensor ");
}

TEST(FoldConstants, KeepsToTheLimitOfBytes) {
  EXPECT_EQ(fold(R"(
    input %x : f32[1, 1] user "x"
    %a : f32[1024, 1024] = aten.ones([1024, 1024])
    %b : f32[1024, 1025] = aten.ones([1024, 1025])
    %o : f32[1024, 1024] = aten.add.Tensor(%a, %x)
    %p : f32[1024, 1025] = aten.add.Tensor(%b, %x)
    return %o, %p
  )"),
            "aten.ones aten.add.Tensor aten.add.Tensor ");
}

TEST(FoldConstants, LeavesWhatTheHostCannotEvaluate) {
  Host host{.refused = "aten.neg"};
  EXPECT_EQ(fold(R"(
    input %x : f32[2] user "x"
    %a : f32[2] = aten.ones([2])
    %b : f32[2] = aten.neg(%a)
    %c : f32[2] = aten.exp(%b)
    %o : f32[2] = aten.add.Tensor(%x, %c)
    return %o
  )",
                 host),
            "aten.neg aten.exp aten.add.Tensor ");
}

TEST(FoldConstants, DoesNothingWithoutAHost) {
  ir::Graph graph = graph_of("%a : f32[2] = aten.ones([2])\n %b : f32[2] = aten.neg(%a)\n return %b");
  PassContext context;
  EXPECT_EQ(fold_constants(graph, context), 0);
}

}  // namespace
}  // namespace npugraph::passes
