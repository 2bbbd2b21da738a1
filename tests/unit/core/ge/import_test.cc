// SPDX-License-Identifier: Apache-2.0
#include "ge/import/import.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ge/model_builder.h"
#include "ir/text.h"

namespace npugraph::ge {
namespace {

std::string imported(const std::vector<Op>& ops) {
  const Model model = model_of(ops);
  return ir::print(import_graph(model, model.graphs.front(), Device{}));
}

std::string refusal(const std::vector<Op>& ops) {
  try {
    return imported(ops);
  } catch (const UserError& error) {
    return error.what();
  }
}

// Unknown sizes of different inputs are one symbol where an operator needs them to be equal.
TEST(Import, UnknownSizesAreUnified) {
  const std::string text = imported({data("x", 0, {-1, 4}), data("y", 1, {-1, 4}), Op("Add", "sum", {"x:0", "y:0"}),
                                     Op("NetOutput", "out", {"sum:0"})});
  EXPECT_TRUE(contains(text, "%x : f32[d0, 4]")) << text;
  EXPECT_TRUE(contains(text, "%y : f32[d0, 4]")) << text;
  EXPECT_TRUE(contains(text, "aten.add.Tensor(%x, %y)")) << text;
}

// A shape that the graph computes is followed as expressions and needs no node.
TEST(Import, ShapesAreExpressions) {
  const std::string text = imported({data("x", 0, {-1, 3, 4}), Op("Shape", "shape", {"x:0"}), int_list("zero", {0}),
                                     Op("GatherV2", "rows", {"shape:0", "zero:0", "axis:0"}),
                                     constant<int64_t>("axis", WireType::kInt64, {}, {0}), int_list("minus", {-1}),
                                     Op("ConcatV2", "wanted", {"rows:0", "minus:0", "axis:0"}),
                                     Op("Reshape", "flat", {"x:0", "wanted:0"}), Op("NetOutput", "out", {"flat:0"})});
  EXPECT_TRUE(contains(text, "aten.view(%x, [d0, 12])")) << text;
  EXPECT_FALSE(contains(text, "cat")) << text;
}

// A scalar constant is a number of the program, with the fewest digits.
TEST(Import, ScalarConstantsAreNumbers) {
  const std::string text = imported({data("x", 0, {2}), constant<float>("tenth", WireType::kFloat, {}, {0.1f}),
                                     Op("Mul", "y", {"tenth:0", "x:0"}), Op("NetOutput", "out", {"y:0"})});
  EXPECT_TRUE(contains(text, "aten.mul.Tensor(%x, 0.1)")) << text;
}

TEST(Import, ProductsTransposeByViews) {
  const std::string text =
      imported({data("x", 0, {-1, 8}), data("w", 1, {5, 8}),
                Op("MatMulV2", "y", {"x:0", "w:0"}).attr("transpose_x2", true), Op("NetOutput", "out", {"y:0"})});
  EXPECT_TRUE(contains(text, "aten.t(%w)")) << text;
  EXPECT_TRUE(contains(text, "f32[d0, 5]{5, 1} = aten.mm(%x, ")) << text;
}

// A number of the user's program is an input without a tensor. A scalar tensor stays a tensor, so that it can be
// written.
TEST(Import, OnlyMarkedInputsAreNumbers) {
  const auto scalar = [](const char* type, const char* name, int64_t index) {
    return Op(type, name).attr("index", index).output(desc("y", WireType::kInt64, {}).text(14, "CPU"));
  };
  const std::string text = imported(
      {scalar("RefData", "count", 0), scalar("Data", "n", 1).attr("_npugraph_value", "s7"), data("x", 2, {-1, 4}),
       constant<int64_t>("one", WireType::kInt64, {}, {1}), Op("Add", "next", {"count:0", "one:0"}),
       Op("Assign", "write", {"count:0", "next:0"}), constant<int64_t>("four", WireType::kInt64, {}, {4}),
       Op("Pack", "shape", {"n:0", "four:0"}).attr("axis", int64_t{0}), Op("Reshape", "y", {"x:0", "shape:0"}),
       Op("NetOutput", "out", {"y:0", "write:-1"})});
  EXPECT_TRUE(contains(text, "input %count : i64[]")) << text;
  EXPECT_TRUE(contains(text, "aten.copy_(%count")) << text;
  EXPECT_TRUE(contains(text, "input d0 : int user \"n\"")) << text;
  EXPECT_TRUE(contains(text, "%x : f32[d0, 4]")) << text;
}

// Bounds of a size hold for the size that it turns out to equal, too.
TEST(Import, BoundsOfSizesAreThoseOfTheirSymbols) {
  Model model = model_of({data("x", 0, {-1, 4}), data("y", 1, {-1, 4}), Op("Add", "sum", {"x:0", "y:0"}),
                          Op("NetOutput", "out", {"sum:0"})});
  GraphDef& graph = model.graphs.front();
  graph.attrs = {{"_npugraph_ranges", {ListValue{.s = {"d0", "d1"}, .i = {2, 512, 1, 100}}}}};
  const std::string text = ir::print(import_graph(model, graph, Device{}));
  EXPECT_TRUE(contains(text, "symbol d0 : int [2, 100]")) << text;
  graph.attrs = {{"_npugraph_ranges", {ListValue{.s = {"d0"}, .i = {2}}}}};
  EXPECT_THROW(import_graph(model, graph, Device{}), UserError);
}

// A part of a constant that has to be as long as an input bounds the length of the input.
TEST(Import, PartsOfConstantsBoundSizes) {
  const std::string text = imported({data("x", 0, {-1}), constant<float>("table", WireType::kFloat, {4}, {1, 2, 3, 4}),
                                     int_list("zero", {0}), Op("Shape", "shape", {"x:0"}),
                                     Op("StridedSliceV2", "part", {"table:0", "zero:0", "shape:0"}),
                                     Op("Add", "y", {"x:0", "part:0"}), Op("NetOutput", "out", {"y:0"})});
  EXPECT_TRUE(contains(text, "symbol d0 : int [0, 4]")) << text;
}

// Shapes without elements, and lists with a gap, are models that somebody may write.
TEST(Import, OddOperandsAreErrorsOrEmpty) {
  const std::string text =
      imported({data("x", 0, {1}), int_list("none", {}), constant<int64_t>("one", WireType::kInt64, {}, {1}),
                Op("Add", "sizes", {"none:0", "one:0"}), Op("Reshape", "y", {"x:0", "sizes:0"}),
                Op("NetOutput", "out", {"y:0"})});
  EXPECT_TRUE(contains(text, "aten.view(%x, [])")) << text;
  EXPECT_TRUE(contains(refusal({data("x", 0, {2}), int_list("axis", {0}), Op("ConcatV2", "y", {"x:0", "", "axis:0"})}),
                       "operator 'y' of type ConcatV2: tensor 1 of its input 'x' is absent"));
}

// Models of unknown origin must not make the engine read or write outside of tensors.
TEST(Import, OperandsThatDoNotFitAreRefused) {
  const auto refused = [](const Op& op, const std::string& reason) {
    const std::string text =
        refusal({data("x", 0, {1, 2, 4, 4}), int_list("list", {1, 2}), int_list("twice", {1, -3}),
                 constant<int64_t>("places", WireType::kInt64, {1, 2, 5, 1}, std::vector<int64_t>(10)),
                 constant<float>("weights", WireType::kFloat, {2}, {1, 2}), op});
    EXPECT_TRUE(contains(text, reason)) << text;
  };
  refused(Op("ReduceSum", "y", {"x:0", "twice:0"}), "its axes name dimension 1 more than once");
  refused(Op("GatherElements", "y", {"x:0", "list:0"}), "its indices have as many dimensions as its data, got 1 and 4");
  refused(Op("GatherElements", "y", {"x:0", "places:0"}), "sizes 5 and 4 have to be equal");
  refused(Op("Assign", "y", {"weights:0", "weights:0"}), "its input 'ref' is a constant, which nothing writes");
  refused(Op("MaxPoolWithArgmaxV3", "y", {"x:0"})
              .attr("ksize", std::vector<int64_t>{2, 2})
              .attr("strides", std::vector<int64_t>{1, 1})
              .attr("pads", std::vector<int64_t>{0, 2}),
          "its padding is 0 to half of a window, got 2 for a window of 2");
  refused(Op("SplitVD", "y", {"x:0"})
              .attr("size_splits", std::vector<int64_t>{5, -1})
              .attr("split_dim", int64_t{2})
              .attr("num_split", int64_t{2}),
          "a result of aten.split_with_sizes would have the size -1");
}

// What an operator returns is a value of before later writes, also where it is a view here.
TEST(Import, ViewsOfWrittenInputsAreKept) {
  const auto ref = [](const char* name, int64_t index) {
    return Op("RefData", name).attr("index", index).output(desc("y", WireType::kFloat, {4}));
  };
  const std::string text =
      imported({ref("z", 0), ref("y", 1), Op("Identity", "old", {"z:0"}), Op("Neg", "new", {"z:0"}),
                Op("Assign", "write_z", {"z:0", "new:0"}), Op("Assign", "write_y", {"y:0", "old:0"}),
                Op("NetOutput", "out", {"write_z:-1", "write_y:-1"})});
  const size_t kept = text.find("aten.clone(%z)"), written = text.find("aten.copy_(%z");
  EXPECT_NE(kept, std::string::npos) << text;
  EXPECT_LT(kept, written) << text;
}

// SwiGlu has no rule. Its parts stand in its place, with symbolic sizes, and belong to its line of the program.
TEST(Import, PartsStandInThePlaceOfTheirOperator) {
  const Message parts = parts_of({data("a", 0, {-1, 4}), int_list("sizes", {2, 2}), int_list("axis", {1}),
                                  Op("SplitV", "halves", {"a:0", "sizes:0", "axis:0"})
                                      .attr("num_split", int64_t{2})
                                      .output(desc("y0", WireType::kFloat, {}))
                                      .output(desc("y1", WireType::kFloat, {})),
                                  Op("Swish", "gate", {"halves:0"}), Op("Mul", "m", {"gate:0", "halves:1"}),
                                  Op("NetOutput", "end", {"m:0"})});
  const std::string text =
      imported({data("x", 0, {-1, 4}),
                Op("SwiGlu", "y", {"x:0"}).attr("dim", int64_t{-1}).attr_message("_npugraph_parts", parts),
                Op("Neg", "z", {"y:0"}), Op("NetOutput", "out", {"z:0"})});
  EXPECT_TRUE(contains(text, "aten.silu(")) << text;
  EXPECT_TRUE(contains(text, "f32[d0, 2]")) << text;
}

// An output with the name of an input is the new value of that input, which is in its memory when the graph has run. It
// is what later operators read, and not what those before have read.
TEST(Import, OperatorsWriteTheInputsOfWhichTheyHaveAnOutput) {
  const auto var = desc("var", WireType::kFloat, {4});
  const auto update = [&](const char* name, const char* written) {
    const Message parts = parts_of(
        {data("a", 0, {4}), data("b", 2, {4}), Op("Add", "sum", {"a:0", "b:0"}), Op("NetOutput", "end", {"sum:0"})});
    return Op("ScatterNdUpdate", name, {written, "i:0", "u:0"})
        .attr_message("_npugraph_parts", parts)
        .input(var)
        .input(desc("indices", WireType::kInt64, {4, 1}))
        .input(desc("updates", WireType::kFloat, {4}))
        .output(var);
  };
  const std::string text =
      imported({Op("RefData", "cache").attr("index", int64_t{0}).output(desc("y", WireType::kFloat, {4})),
                data("i", 1, {4, 1}, WireType::kInt64), data("u", 2, {4}), Op("Neg", "before", {"cache:0"}),
                update("first", "cache:0"), update("second", "first:0"), Op("Exp", "behind", {"cache:0"}),
                Op("NetOutput", "out", {"before:0", "behind:0"})});
  EXPECT_TRUE(contains(text, "%before : f32[4]{1} = aten.neg(%cache)")) << text;
  EXPECT_TRUE(contains(text, "%second : f32[4]{1} = aten.add.Tensor(%first, %u)")) << text;
  EXPECT_TRUE(contains(text, "%behind : f32[4]{1} = aten.exp(%second)")) << text;
  EXPECT_TRUE(contains(text, "aten.copy_(%cache, %second) @ \"second\"")) << text;
  EXPECT_EQ(text.find("aten.copy_"), text.rfind("aten.copy_")) << text;
}

TEST(Import, PartsThatDoNotFitAreRefused) {
  const auto with_parts = [](const std::vector<Op>& ops, const std::string& read = "y:0") {
    return refusal({data("x", 0, {2, 4}),
                    Op("AddRmsNorm", "y", {"x:0", "x:0", "x:0"}).attr_message("_npugraph_parts", parts_of(ops)),
                    Op("NetOutput", "out", {read})});
  };
  EXPECT_TRUE(contains(with_parts({data("a", 3, {2, 4}), Op("NetOutput", "end", {"a:0"})}),
                       "it is input 3 of an operator that does not have this input"));
  EXPECT_TRUE(contains(with_parts({data("a", 0, {2, 4}), Op("NetOutput", "end", {"a:0", "", "a:0"})}, "y:1"),
                       "it reads result 1 of 'y', which no part of it computes"));
  EXPECT_TRUE(contains(with_parts({data("a", 0, {2, 4}), Op("NetOutput", "end", {"a:0"})}, "y:2"),
                       "it reads result 2 of 'y', which has 1"));
  EXPECT_TRUE(
      contains(with_parts({data("a", 0, {2, 4}), Op("Assign", "w", {"a:0", "a:0"}), Op("NetOutput", "end", {"w:0"})}),
               "a part of an operator writes nothing"));
  EXPECT_TRUE(contains(with_parts({data("a", 0, {2, 4}), Op("SwiGlu", "s", {"a:0"}), Op("NetOutput", "end", {"s:0"})}),
                       "operator 's' of type SwiGlu: the engine does not compute operators of this type"));
}

// n - (n + 1) // 2 == (n + 1) // 2 says that n is even.
TEST(Import, HalvesThatAreEqualAreOfAnEvenSize) {
  const std::string text = imported({data("x", 0, {-1}), Op("Shape", "n", {"x:0"}), int_list("one", {1}),
                                     int_list("two", {2}), int_list("zero", {0}), Op("Add", "more", {"n:0", "one:0"}),
                                     Op("FloorDiv", "half", {"more:0", "two:0"}), Op("Sub", "rest", {"n:0", "half:0"}),
                                     Op("ConcatV2", "sizes", {"half:0", "rest:0", "zero:0"}).attr("N", int64_t{2}),
                                     Op("SplitV", "halves", {"x:0", "sizes:0", "zero:0"})
                                         .attr("num_split", int64_t{2})
                                         .output(desc("y0", WireType::kFloat, {}))
                                         .output(desc("y1", WireType::kFloat, {})),
                                     Op("Mul", "m", {"halves:0", "halves:1"}), Op("NetOutput", "out", {"m:0"})});
  EXPECT_TRUE(contains(text, "2*floordiv(d0, 2)")) << text;
}

// Shapes are computed without overflow and without reading outside of lists.
TEST(Import, NumbersOfHostileModels) {
  const auto shape = [](Op&& op) {
    return std::vector<Op>{data("x", 0, {2, 3}),
                           int_list("list", {2, 3, 1}),
                           int_list("one", {1}),
                           int_list("three", {3}),
                           int_list("far", {INT64_MAX}),
                           int_list("open", {-1, -1}),
                           int_list("wide", {1L << 32, 1L << 32}),
                           std::move(op),
                           Op("Reshape", "y", {"x:0", "n:0"}),
                           Op("NetOutput", "out", {"y:0"})};
  };
  const std::string refused = refusal(shape(Op("StridedSlice", "n", {"list:0", "one:0", "three:0", "far:0"})));
  EXPECT_TRUE(contains(refused, "operator 'y' of type Reshape")) << refused;
  EXPECT_NE(refusal(shape(Op("Reshape", "n", {"list:0", "open:0"}))), "");
  EXPECT_NE(refusal(shape(Op("Reshape", "n", {"list:0", "wide:0"}))), "");
  for (Op op : {Op("SplitD", "n", {"x:0"}).attr("num_split", 1L << 31).attr("split_dim", int64_t{0}),
                Op("Unpack", "n", {"x:0"}).attr("num", 1L << 31)}) {
    const std::string many = refusal({data("x", 0, {1L << 31}), std::move(op), Op("NetOutput", "out", {"n:0"})});
    EXPECT_TRUE(contains(many, "is from 1 to 65536, got 2147483648")) << many;
  }
  const std::string below = refusal({data("x", 0, {-1}), data("y", 1, {8}), int_list("pads", {9, 0}),
                                     Op("PadV3", "p", {"x:0", "pads:0"}), Op("Add", "sum", {"p:0", "y:0"})});
  EXPECT_TRUE(contains(below, "have to be equal, and no size is -1")) << below;
  Message composite;
  composite.text(2, "2*s0");
  const std::string open = refusal(
      {Op("Data", "x")
           .attr("index", int64_t{0})
           .output(desc("y", WireType::kFloat, {-1})
                       .message(5, Message().text(1, "_npugraph_sizes").message(2, Message().message(1, composite)))),
       Op("NetOutput", "out", {"x:0"})});
  EXPECT_TRUE(contains(open, "the size s0 is part of other sizes, and no input has it")) << open;
}

TEST(Import, ErrorsNameTheOperator) {
  EXPECT_TRUE(contains(refusal({data("x", 0, {2}), Op("Nonsense", "n", {"x:0"})}),
                       "operator 'n' of type Nonsense: Ascend IR has no operator of this type"));
  EXPECT_TRUE(contains(refusal({data("x", 0, {2}), Op("Add", "sum", {"x:0", "gone:0"})}),
                       "operator 'sum' reads 'gone', which the graph does not have"));
  EXPECT_TRUE(contains(refusal({data("x", 0, {2}), data("y", 1, {3}), Op("Add", "sum", {"x:0", "y:0"})}),
                       "operator 'sum' of type Add: sizes 2 and 3 have to be equal"));
  EXPECT_TRUE(contains(refusal({Op("Relu", "a", {"b:0"}), Op("Relu", "b", {"a:0"})}), "waits for its own results"));
  EXPECT_TRUE(contains(refusal({data("x", 0, {2}), Op("Relu", "y", {"x:3"})}), "reads result 3 of 'x', which has 1"));
  EXPECT_TRUE(contains(refusal({data("x", 0, {2}), Op("Add", "sum", {"x:0"})}), "operator 'sum' of type Add: "));
  EXPECT_TRUE(contains(refusal({data("x", 0, {2}), Op("Relu", "y", {"x:0", "x:0"})}), "operator 'y' of type Relu: "));
  EXPECT_TRUE(contains(refusal({data("x", 0, {2}), Op("Cast", "y", {"x:0"})}),
                       "operator 'y' of type Cast: it has no attribute 'dst_type'"));
  EXPECT_TRUE(contains(refusal({data("x", 0, {2}), Op("LogicalNot", "y", {"x:0"})}),
                       "operator 'y' of type LogicalNot: the type of its input 'x' is one of {bool}, got DT_FLOAT"));
}

}  // namespace
}  // namespace npugraph::ge
