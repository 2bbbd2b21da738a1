// SPDX-License-Identifier: Apache-2.0
#include "ir/alias.h"

#include "ir_testing.h"

namespace npugraph::ir {
namespace {

class Aliases {
 public:
  explicit Aliases(std::string_view body) : graph_(graph_of(body)), info_(graph_) {
    const std::string error = verify(graph_);
    EXPECT_EQ(error, "");
  }

  std::string root(std::string_view name) const { return graph_.value(info_.root(id(name))).name; }
  std::string offset(std::string_view name) const {
    const auto& place = info_.placement(id(name));
    return place.placed ? place.byte_offset.str() : "?";
  }
  bool overlap(std::string_view a, std::string_view b) const {
    EXPECT_EQ(info_.may_overlap(id(a), id(b)), info_.may_overlap(id(b), id(a)));
    return info_.may_overlap(id(a), id(b));
  }
  bool same(std::string_view a, std::string_view b) const { return info_.same_view(id(a), id(b)); }
  std::vector<std::string> members(std::string_view name) const {
    std::vector<std::string> names;
    for (const ValueId member : info_.members(id(name))) names.push_back(graph_.value(member).name);
    return names;
  }

 private:
  ValueId id(std::string_view name) const { return value_named(graph_, name); }
  Graph graph_;
  AliasInfo info_;
};

TEST(Alias, FreshResultsAndInputsAreTheirOwn) {
  const Aliases a("input %x : f32[4]  input %y : f32[4]  %z : f32[4] = aten.relu(%x)  return %z");
  EXPECT_EQ(a.root("z"), "z");
  EXPECT_FALSE(a.overlap("x", "y"));
  EXPECT_FALSE(a.overlap("x", "z"));
}

TEST(Alias, ViewsComposeTheirOffsets) {
  const Aliases a(
      "input %x : f32[8, 4]\n"
      "%s : f32[4, 4] = aten.slice.Tensor(%x, 0, 2, 6) view(8)\n"
      "%r : f32[4] = aten.select.int(%s, 0, 1) view(4)\n"
      "%t : f32[4, 8]{1, 4} = aten.t(%x) view(0)\n"
      "return %r");
  EXPECT_EQ(a.root("r"), "x");
  EXPECT_EQ(a.offset("r"), "48");
  EXPECT_EQ(a.members("x"), (std::vector<std::string>{"x", "s", "r", "t"}));
  EXPECT_TRUE(a.overlap("r", "t"));
  EXPECT_TRUE(a.overlap("x", "t"));
}

TEST(Alias, AnInPlaceResultIsItsOperand) {
  const Aliases a(
      "input %x : f32[8]  %v : f32[4] = aten.slice.Tensor(%x, 0, 4, 8) view(4)\n"
      "%w : f32[4] = aten.add_.Tensor(%v, 1)  return %w");
  EXPECT_EQ(a.root("w"), "x");
  EXPECT_TRUE(a.same("v", "w"));
  EXPECT_EQ(a.offset("w"), "16");
}

TEST(Alias, SameViewNeedsEqualSizesAndStrides) {
  const Aliases a(
      "input %x : f32[4, 4]\n"
      "%v : f32[16] = aten.view(%x, [16]) view(0)\n"
      "%w : f32[16] = aten.view(%x, [-1]) view(0)\n"
      "%t : f32[4, 4]{1, 4} = aten.t(%x) view(0)\n"
      "return %v, %w, %t");
  EXPECT_TRUE(a.same("v", "w"));
  EXPECT_FALSE(a.same("x", "v"));
  EXPECT_FALSE(a.same("x", "t"));
}

TEST(Alias, DisjointRangesDoNotOverlap) {
  const Aliases a(
      "input %x : f32[8]  %l : f32[3] = aten.slice.Tensor(%x, 0, 0, 3) view(0)\n"
      "%m : f32[3] = aten.slice.Tensor(%x, 0, 2, 5) view(2)\n"
      "%h : f32[5] = aten.slice.Tensor(%x, 0, 3) view(3)  return %l");
  EXPECT_FALSE(a.overlap("l", "h"));
  EXPECT_TRUE(a.overlap("l", "m"));
  EXPECT_TRUE(a.overlap("m", "h"));
}

TEST(Alias, SlicesAlongAnInnerDimensionAreDisjoint) {
  const Aliases a(
      "input %x : f32[5, 12]\n"
      "%q, %k, %v : f32[5, 4]{12, 1}, f32[5, 4]{12, 1}, f32[5, 4]{12, 1} = aten.split.Tensor(%x, 4, 1) view(0; 4; 8)\n"
      "%s : f32[5, 6]{12, 1} = aten.slice.Tensor(%x, 1, 3, 9) view(3)\n"
      "%e : f32[5, 6]{12, 2} = aten.slice.Tensor(%x, 1, 0, 12, 2) view(0)\n"
      "%o : f32[5, 6]{12, 2} = aten.slice.Tensor(%x, 1, 1, 12, 2) view(1)\n"
      "return %q");
  EXPECT_FALSE(a.overlap("q", "k"));
  EXPECT_FALSE(a.overlap("q", "v"));
  EXPECT_TRUE(a.overlap("q", "s"));
  EXPECT_TRUE(a.overlap("k", "s"));
  EXPECT_FALSE(a.overlap("e", "o"));
}

TEST(Alias, SelectedRowsOfAnInnerDimensionAreDisjoint) {
  const Aliases a(
      "input %x : f32[2, 3, 4]\n"
      "%a : f32[2, 4]{12, 1} = aten.select.int(%x, 1, 0) view(0)\n"
      "%b : f32[2, 4]{12, 1} = aten.select.int(%x, 1, 2) view(8)\n"
      "%c : f32[2, 4]{12, 1} = aten.select.int(%x, 1, -1) view(8)\n"
      "return %a");
  EXPECT_FALSE(a.overlap("a", "b"));
  EXPECT_TRUE(a.overlap("b", "c"));
  EXPECT_TRUE(a.same("b", "c"));
}

TEST(Alias, SymbolicSlicesAreCompared) {
  const Aliases a(
      "symbol s0 : int [2, 1024]  symbol s1 : int\n"
      "input %x : f32[s0, 2*s0, 64]\n"
      "%a, %b : f32[s0, s0, 64]{128*s0, 64, 1}, f32[s0, s0, 64]{128*s0, 64, 1} = aten.split_with_sizes(%x, [s0, s0], "
      "1) "
      "view(0; 64*s0)\n"
      "%c : f32[s0, s1, 64]{128*s0, 64, 1} = aten.slice.Tensor(%x, 1, 0, s1) view(0)\n"
      "%h, %i : f32[s0, 2*s0, 32]{128*s0, 64, 1}, f32[s0, 2*s0, 32]{128*s0, 64, 1} = aten.split.Tensor(%x, 32, 2) "
      "view(0; 32)\n"
      "return %a");
  EXPECT_FALSE(a.overlap("a", "b"));
  EXPECT_TRUE(a.overlap("b", "c")) << "s1 may exceed s0";
  EXPECT_FALSE(a.overlap("h", "i"));
  EXPECT_EQ(a.offset("b"), "256*s0");
}

TEST(Alias, PartsOfComplexNumbersAreBytes) {
  const Aliases a(
      "input %x : c64[4]\n"
      "%r : f32[4]{2} = aten.real(%x) view(0)\n"
      "%i : f32[4]{2} = aten.imag(%x) view(1)\n"
      "%b : i32[4, 2] = aten.view.dtype(%i, i32) view(0)\n"
      "return %r");
  EXPECT_EQ(a.offset("i"), "4");
  EXPECT_FALSE(a.overlap("r", "i"));
  EXPECT_TRUE(a.overlap("x", "i"));
  EXPECT_TRUE(a.overlap("i", "b"));
}

TEST(Alias, ExpandedViewsOverlapTheirBase) {
  const Aliases a(
      "input %x : f32[2, 1]  %e : f32[2, 5]{1, 0} = aten.expand(%x, [2, 5]) view(0)\n"
      "%a : f32[5]{0} = aten.select.int(%e, 0, 0) view(0)\n"
      "%b : f32[5]{0} = aten.select.int(%e, 0, 1) view(1)  return %e");
  EXPECT_TRUE(a.overlap("x", "e"));
  EXPECT_FALSE(a.overlap("a", "b"));
}

TEST(Alias, EmptyViewsOverlapNothing) {
  const Aliases a("input %x : f32[4]  %e : f32[0] = aten.slice.Tensor(%x, 0, 2, 2) view(2)  return %e");
  EXPECT_FALSE(a.overlap("x", "e"));
}

TEST(Alias, ResultsThatMayBeTheOperandShareItsMemoryAtAnUnknownPlace) {
  const Aliases a("input %x : f32[4]  %c : f32[4] = aten.contiguous(%x)  return %c");
  EXPECT_EQ(a.root("c"), "x");
  EXPECT_EQ(a.offset("c"), "?");
  EXPECT_TRUE(a.overlap("x", "c"));
  EXPECT_FALSE(a.same("x", "c"));
}

TEST(Alias, OpaqueValuesOfOneRootMayOverlap) {
  const Aliases a(
      "op \"my::share(Tensor(a) x) -> Tensor(a)\"\n"
      "input %x : opaque \"sparse\"  %y : opaque \"sparse\" = my.share(%x) view(0)  return %y");
  EXPECT_TRUE(a.overlap("x", "y"));
}

TEST(Alias, DistinctIndicesNameDistinctElements) {
  const auto distinct = [](std::vector<Expr> sizes, std::vector<Expr> strides) {
    const std::vector<Symbol> symbols = {{.name = "s0", .min = 2, .max = 64}, {.name = "s1", .min = 2, .max = 64}};
    return has_distinct_elements({.sizes = std::move(sizes), .strides = std::move(strides)}, symbols);
  };
  const Expr s0 = Expr::symbol("s0"), s1 = Expr::symbol("s1");
  EXPECT_TRUE(distinct({4, 4}, {1, 4}));
  EXPECT_TRUE(distinct({4, 4, 2}, {1, 8, 4}));
  EXPECT_TRUE(distinct({8, 1}, {1, 0}));
  EXPECT_FALSE(distinct({8, 4}, {1, 0}));
  EXPECT_FALSE(distinct({8, 4}, {1, 7}));
  // Known strides beside symbolic ones, in any order of dimensions.
  EXPECT_TRUE(distinct({4, s0, 3}, {3 * s0, 3, 1}));
  EXPECT_TRUE(distinct({3, 4, s0}, {1, 3 * s0, 3}));
  EXPECT_TRUE(distinct({4, s1, s0, 3}, {3 * s0 * s1, 3, 3 * s1, 1}));
  EXPECT_FALSE(distinct({3, 4, s0}, {1, s0, 3}));
}

}  // namespace
}  // namespace npugraph::ir
