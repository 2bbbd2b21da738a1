// SPDX-License-Identifier: Apache-2.0
// The shapes that loop nests may have, what they cost, and which one is taken on a given processor.
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "ir/alias.h"
#include "loop/evaluate.h"
#include "loop/text.h"
#include "lower/clusters/cluster.h"
#include "lower/lower_testing.h"
#include "lower/nest/loop_nest.h"
#include "lower/nest/shape.h"

namespace npugraph::lower {
namespace {

const target::Target kTarget{.level = "x86-64-v4",
                             .vector_bits = 512,
                             .vector_registers = 32,
                             .fma = true,
                             .f16c = true,
                             .masks = true,
                             .l1_bytes = 48 << 10,
                             .l2_bytes = 1 << 20,
                             .l3_bytes = 32 << 20};

// The loop nests of a graph with one cluster.
class Nest {
 public:
  explicit Nest(const std::string& body)
      : graph_(ir::parse("npugraph.graph 1 @test {\n" + body + "\n}", "test", ops::registry())),
        clusters_(graph_, ir::AliasInfo(graph_)) {
    EXPECT_EQ(clusters_.all().size(), 1u);
  }

  std::vector<NestShape> shapes() const { return nest_shapes(terms(), cluster().results); }
  LoopNest in(const NestShape& shape) const {
    return make_loop_nest(graph_, terms(), cluster().results, strides(), clusters_.ramps(), shape);
  }
  LoopNest cheapest() const {
    return make_cheapest_nest(graph_, terms(), cluster().results, strides(), clusters_.ramps(), kTarget);
  }

  // Runs the kernel in the interpreter and returns its last result.
  std::vector<float> run(const loop::Kernel& kernel, const LoopNest& nest) const {
    std::vector<std::vector<float>> memory;
    for (const ir::ValueId id : nest.reads) {
      std::vector<float>& of = memory.emplace_back(elements(graph_.value(id).tensor()));
      for (size_t i = 0; i < of.size(); ++i) of[i] = std::sin(static_cast<float>(i) * 0.7F);
    }
    for (const ir::ValueId id : nest.writes) memory.emplace_back(elements(graph_.value(id).tensor()));
    std::vector<loop::HostBuffer> buffers;
    for (std::vector<float>& of : memory) buffers.push_back({of.data(), static_cast<int64_t>(of.size())});
    EXPECT_EQ(loop::interpret(kernel, buffers, {}), "");
    return memory.back();
  }

 private:
  static size_t elements(const ir::TensorType& type) {
    int64_t count = 1;
    for (const Expr& size : type.sizes) count *= *size.as_int();
    return static_cast<size_t>(count);
  }
  const Cluster& cluster() const { return clusters_.all().front(); }
  Terms terms() const {
    Terms terms(cluster().space, cluster().lanes, cluster().walk);
    if (cluster().tile != ir::kNone) terms.set_tile(cluster().tile);
    for (const ir::NodeId id : cluster().nodes) terms.add(graph_, graph_.node(id));
    return terms;
  }
  StridesOf strides() const {
    return [this](ir::ValueId id) { return graph_.value(id).tensor().strides; };
  }

  ir::Graph graph_;
  Clusters clusters_;
};

std::string sum(const std::string& type, const std::string& dim, const std::string& result) {
  return "input %x : " + type + " user \"x\"\n%a : " + type + " = aten.mul.Tensor(%x, %x)\n%s : " + result +
         " = aten.sum.dim_IntList(%a, [" + dim + "])\nreturn %s";
}
std::string softmax_of(const std::string& type, const std::string& dim) {
  return "input %x : " + type + " user \"x\"\n%a : " + type + " = aten.tanh(%x)\n%s : " + type +
         " = aten._softmax(%a, " + dim + ", false)\nreturn %s";
}
std::string chain_of(const std::string& type) {
  return "input %x : " + type + " user \"x\"\n%a : " + type + " = aten.neg(%x)\n%s : " + type +
         " = aten.exp(%a)\nreturn %s";
}
std::string transposed(const std::string& rows, const std::string& columns) {
  const std::string to = "f32[" + columns + ", " + rows + "]";
  return "input %x : f32[" + rows + ", " + columns + "] user \"x\"\n%t : " + to + "{1, " + columns +
         "} = aten.t(%x) view(0)\n%a : " + to + "{" + rows + ", 1} = aten.neg(%t)\n%s : " + to + "{" + rows +
         ", 1} = aten.tanh(%a)\nreturn %s";
}
// The transposed part has no elements, so that nothing is left to be read in tiles.
constexpr const char* kOnlyPart = R"(
  input %x : f32[0, 50] user "x"
  input %y : f32[50, 30] user "y"
  %t : f32[50, 0]{1, 50} = aten.t(%x) view(0)
  %a : f32[50, 30] = aten.cat([%t, %y], 1)
  %s : f32[50, 30] = aten.tanh(%a)
  return %s)";

bool has(const std::vector<NestShape>& shapes, bool (*wanted)(const NestShape&)) {
  return std::any_of(shapes.begin(), shapes.end(), wanted);
}
bool splits(const NestShape& shape) { return shape.splits; }
bool keeps_nothing(const NestShape& shape) { return shape.keep_cost == NestShape::kKeepsNothing; }

TEST(NestShapes, ComputeTheSame) {
  for (const std::string& body :
       {chain_of("f32[3, 5000]"), chain_of("f32[20000]"), softmax_of("f32[3, 70]", "-1"),
        softmax_of("f32[1, 9000]", "-1"), softmax_of("f32[2, 40, 70]", "1"), sum("f32[1, 9000]", "1", "f32[1]"),
        sum("f32[300, 70]", "0", "f32[70]"), transposed("70", "90"), std::string(kOnlyPart)}) {
    const Nest nest(body);
    const std::vector<float> expected = nest.run(nest.in({}).kernel, nest.in({}));
    for (const NestShape& shape : nest.shapes()) {
      const LoopNest made = nest.in(shape);
      const std::vector<float> got = nest.run(made.kernel, made);
      for (size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(got[i], expected[i], 1e-5 * std::max(1.0F, std::abs(expected[i]))) << str(shape) << "\n" << body;
    }
  }
}

std::string product(const std::string& rows, const std::string& length) {
  const std::string inner = rows.empty() ? length : rows + ", " + length;
  return "input %x : f32[3, " + inner + "] user \"x\"\ninput %c : f32[" + inner + "] user \"c\"\ninput %w : f32[" +
         length + "] user \"w\"\n%a : f32[3, " + inner + "] = aten.mul.Tensor(%x, %w)\n%s : f32[3, " + inner +
         "] = aten.add.Tensor(%a, %c)\nreturn %s";
}

// Whether the three elements that read one element of `c` are computed one after the other.
bool reads_again(const LoopNest& nest) { return loop::print(nest.kernel).find("mod(i0, 3)") != std::string::npos; }

TEST(Nests, ReadLargeBroadcastOperandsOnce) {
  for (const auto& [rows, length] : {std::pair{5000, 64}, std::pair{1, 300000}}) {
    const Nest nest(product(rows == 1 ? "" : std::to_string(rows), std::to_string(length)));
    const LoopNest made = nest.in({});
    EXPECT_TRUE(reads_again(made)) << loop::print(made.kernel);
    const std::vector<float> got = nest.run(made.kernel, made);
    const auto input = [](int i) { return std::sin(static_cast<float>(i) * 0.7F); };
    for (int i = 0; i < 3 * rows * length; ++i)
      ASSERT_NEAR(got[i], input(i) * input(i % length) + input(i % (rows * length)), 1e-6) << i;
  }
}

TEST(Nests, KeepTheirOrderWhereACacheHoldsWhatIsBroadcast) {
  const Nest nest(product("50", "64"));
  EXPECT_FALSE(reads_again(nest.in({}))) << loop::print(nest.in({}).kernel);
}

TEST(NestShapes, BeginWithTheUsualOne) {
  for (const std::string& body : {chain_of("f32[3, 5000]"), softmax_of("f32[3, 70]", "-1"), transposed("70", "90")})
    EXPECT_EQ(Nest(body).shapes().front(), NestShape());
}

TEST(NestShapes, SplitRowsWhereThereAreFew) {
  EXPECT_TRUE(has(Nest(sum("f32[1, 9000]", "1", "f32[1]")).shapes(), splits));
  EXPECT_TRUE(has(Nest(sum("f32[1000, 16]", "0", "f32[16]")).shapes(), splits));
  EXPECT_FALSE(has(Nest(sum("f32[2, 9000]", "1", "f32[2]")).shapes(), splits));
  EXPECT_FALSE(has(Nest(sum("f32[1, 4000]", "1", "f32[1]")).shapes(), splits));
  EXPECT_FALSE(has(Nest(sum("f32[100, 1000]", "0", "f32[1000]")).shapes(), splits));
}

TEST(NestShapes, NeverSplitWhereTheOrderMatters) {
  EXPECT_FALSE(has(Nest("input %x : f32[1, 90000] user \"x\"\n%a : f32[1, 90000] = aten.neg(%x)\n%s : f32[1, 90000] = "
                        "aten.cumsum(%a, 1)\nreturn %s")
                       .shapes(),
                   splits));
}

TEST(NestShapes, KeepNothingOnlyWhereThereIsSomethingToKeep) {
  EXPECT_TRUE(has(Nest(softmax_of("f32[64, 1024]", "-1")).shapes(), keeps_nothing));
  EXPECT_FALSE(has(Nest(softmax_of("f32[4, 64, 1024]", "1")).shapes(), keeps_nothing));
  EXPECT_FALSE(has(Nest(chain_of("f32[64, 1024]")).shapes(), keeps_nothing));
}

TEST(NestShapes, OfPiecesAreWorthAThread) {
  for (const NestShape& shape : Nest(chain_of("f32[1048576]")).shapes()) EXPECT_GE(shape.grain, shape.piece);
}

TEST(NestShapes, HavePiecesOfWhichThereMayBeSeveral) {
  const auto pieces = [](const std::string& body) {
    std::set<int64_t> found;
    for (const NestShape& shape : Nest(body).shapes()) found.insert(shape.piece);
    return found;
  };
  const int64_t usual = NestShape().piece;
  EXPECT_EQ(pieces(chain_of("f32[512]")), std::set<int64_t>({usual}));
  EXPECT_EQ(pieces(chain_of("f32[2000]")), std::set<int64_t>({1024, usual}));
  EXPECT_EQ(pieces(chain_of("f32[20000]")), std::set<int64_t>({1024, usual, 16384}));
  const std::string unknown = "symbol s0 : int [2, 512]\ninput s0 : int user \"s0\"\n" + chain_of("f32[s0]");
  EXPECT_EQ(pieces(unknown), std::set<int64_t>({1024, usual, 16384}));
}

TEST(CheapestNest, IsOneOfTheShapes) {
  for (const std::string& body : {chain_of("f32[300, 5000]"), softmax_of("f32[300, 700]", "-1"),
                                  transposed("700", "900"), sum("f32[1, 90000]", "1", "f32[1]")}) {
    const Nest nest(body);
    const LoopNest cheapest = nest.cheapest();
    EXPECT_EQ(loop::print(cheapest.kernel), loop::print(nest.in(cheapest.shape).kernel));
  }
}

TEST(CheapestNest, SharesLongRowsAndNotShortOnes) {
  EXPECT_TRUE(Nest(sum("f32[1, 1048576]", "1", "f32[1]")).cheapest().shape.splits);
  EXPECT_FALSE(Nest(sum("f32[1, 9000]", "1", "f32[1]")).cheapest().shape.splits);
}

TEST(CheapestNest, KeepsWhatTakesLongToCompute) {
  EXPECT_FALSE(keeps_nothing(Nest(softmax_of("f32[1024, 1024]", "-1")).cheapest().shape));
}

TEST(CheapestNest, LeavesLittleWorkToOneThread) {
  const LoopNest little = Nest(chain_of("f32[8, 512]")).cheapest();
  EXPECT_GT(2 * little.shape.grain, 8 * 512);
}

TEST(NestCost, GrowsWithTheWork) {
  double last = 0;
  for (const char* type : {"f32[10, 1000]", "f32[100, 1000]", "f32[1000, 1000]", "f32[10000, 1000]"}) {
    const double cost = cost_of(Nest(chain_of(type)).in({}).kernel, kTarget);
    EXPECT_GT(cost, 2 * last) << type;
    last = cost;
  }
}

TEST(NestCost, KnowsSizesThatAreSymbols) {
  const Nest nest("symbol s0 : int\n" + chain_of("f32[s0, 1000]"));
  EXPECT_GT(cost_of(nest.in({}).kernel, kTarget), cost_of(Nest(chain_of("f32[64, 1000]")).in({}).kernel, kTarget));
}

}  // namespace
}  // namespace npugraph::lower
