// SPDX-License-Identifier: Apache-2.0
#include "ir/text.h"

#include <cstring>

#include "base/error.h"
#include "ir_testing.h"
#include "ops/table.h"
#include "random_graph.h"

namespace npugraph::ir {
namespace {

TEST(Text, RandomGraphsRoundTrip) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Graph graph = RandomGraph(seed).make(40);
    ASSERT_EQ(verify(graph), "") << print(graph);
    ASSERT_EQ(ops::verify_types(graph), "") << print(graph);
    const std::string text = print(graph);
    const Graph parsed = parse(text, "printed", ops::registry());
    ASSERT_EQ(verify(parsed), "") << text;
    ASSERT_EQ(print(parsed), text);
    ASSERT_EQ(parsed.num_values(), graph.num_values());
    ASSERT_EQ(parsed.order().size(), graph.order().size());
    for (size_t i = 0; i < graph.order().size(); ++i) {
      const Node& before = graph.node(graph.order()[i]);
      const Node& after = parsed.node(parsed.order()[i]);
      ASSERT_EQ(after.op, before.op);
      ASSERT_EQ(after.views, before.views);
      ASSERT_EQ(after.defines, before.defines);
      ASSERT_EQ(after.args, before.args) << before.op->name;
      ASSERT_EQ(after.results, before.results);
    }
  }
}

// A damaged text gives either a graph or a UserError.
TEST(Text, DamagedTextIsRefused) {
  std::mt19937 random(7);
  const std::string text = print(RandomGraph(3).make(30));
  const std::string_view noise = "%@(){}[]:;=,.\"-+*x0 \n";
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = text;
    for (uint32_t k = 0; k < 1 + random() % 3; ++k) {
      const size_t at = random() % damaged.size();
      switch (random() % 3) {
        case 0: damaged[at] = noise[random() % noise.size()]; break;
        case 1: damaged.erase(at, random() % 40); break;
        default: damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 20)); break;
      }
    }
    try {
      const Graph graph = parse(damaged, "damaged", ops::registry());
      verify(graph);
      print(graph);
    } catch (const UserError&) {
    }
  }
}

TEST(Text, ConstantsKeepTheirBits) {
  const Graph graph = graph_of(
      "const %a : f16[5] = [0.1, 65504.0, -0.0, 5.960464477539063e-08, inf]\n"
      "const %b : bf16[3] = [1.0, 3.0e38, -2.5]\n"
      "const %c : u8[2] = [0, 255]\n"
      "const %d : c64[1] = [complex(1.5, -inf)]\n"
      "const %e : f8e5m2[2] = [60, 255]\n"
      "const %f : i64[1] = [-9223372036854775808]\n"
      "return");
  const auto bits = [&](size_t constant, size_t index) {
    uint16_t value = 0;
    std::memcpy(&value, static_cast<const char*>(graph.constants[constant].data->data) + 2 * index, 2);
    return value;
  };
  EXPECT_EQ(bits(0, 0), 0x2e66);
  EXPECT_EQ(bits(0, 1), 0x7bff);
  EXPECT_EQ(bits(0, 2), 0x8000);
  EXPECT_EQ(bits(0, 3), 0x0001);
  EXPECT_EQ(bits(0, 4), 0x7c00);
  EXPECT_EQ(bits(1, 0), 0x3f80);
  EXPECT_EQ(bits(1, 1), 0x7f62);
  EXPECT_EQ(bits(2, 0), 0xff00);
  const std::string text = print(graph);
  EXPECT_EQ(print(parse(text, "printed", ops::registry())), text);
}

TEST(Text, ExternalConstantsComeBackWithoutBytes) {
  const Graph graph = graph_of("const %w : f32[100, 100] derived = external  return %w");
  EXPECT_EQ(graph.constants[0].data->data, nullptr);
  EXPECT_TRUE(graph.constants[0].derived);
  EXPECT_EQ(verify(graph), "");
}

TEST(Text, DefaultsAreLeftOutAndFilledIn) {
  const Graph graph = graph_of(
      "input %x : f32[4]\n"
      "%a : f32[4] = aten.add.Tensor(%x, %x, alpha=1)\n"
      "%b : f32[4] = aten.add.Tensor(other=%x, self=%x, alpha=2)\n"
      "%c : f32[4] = aten.slice.Tensor(%x, 0, none, none, 1) view(0)\n"
      "%d : f32[4] = aten.slice.Tensor(%x, step=1, end=4) view(0)\n"
      "%e : f32[4] = aten.gelu(%x, approximate=\"none\")\n"
      "return");
  const std::string text = print(graph);
  EXPECT_NE(text.find("= aten.add.Tensor(%x, %x)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("= aten.add.Tensor(%x, %x, alpha=2)\n"), std::string::npos);
  EXPECT_NE(text.find("= aten.slice.Tensor(%x) view(0)\n"), std::string::npos);
  EXPECT_NE(text.find("= aten.slice.Tensor(%x, 0, none, 4) view(0)\n"), std::string::npos);
  EXPECT_NE(text.find("= aten.gelu(%x)\n"), std::string::npos);
}

TEST(Text, NumbersTakeTheKindOfTheirArgument) {
  const Graph graph = graph_of(
      "input %x : f32[4]  %a, %b, %c : f32[4], f32[1], f32[1] = aten.native_layer_norm(%x, [4], none, none, 1)\n"
      "%d : f32[4] = aten.cat([])  return");
  EXPECT_EQ(std::get<Expr>(def_of(graph, "a").args[4]), Expr::constant(Scalar::of_float(1.0)));
  EXPECT_TRUE(std::holds_alternative<std::vector<TensorRef>>(def_of(graph, "d").args[0]));
}

TEST(Text, PrintsGraphsThatBreakTheRules) {
  Graph graph;
  Node node;
  node.op = &ops::require("aten.relu");
  node.args = {TensorRef{77}};
  graph.append(std::move(node), {}, "");
  graph.append(Node{}, {}, "");
  graph.outputs.emplace_back(TensorRef{-5});
  EXPECT_NE(print(graph).find("aten.relu(%?77)"), std::string::npos) << print(graph);
}

}  // namespace
}  // namespace npugraph::ir
