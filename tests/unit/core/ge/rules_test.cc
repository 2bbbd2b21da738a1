// SPDX-License-Identifier: Apache-2.0
// What operators become, where their operands leave a choice, and calls that are not allowed.
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"
#include "ge/import/import.h"
#include "ge/model_builder.h"
#include "ir/text.h"

namespace npugraph::ge {
namespace {

// The Graph of a model whose last operator is `y`, or the error.
std::string graph_or_refusal(std::vector<Op> ops) {
  ops.push_back(Op("NetOutput", "out", {"y:0"}));
  const Model model = model_of(ops);
  try {
    return ir::print(import_graph(model, model.graphs.front(), Device{}));
  } catch (const UserError& error) {
    return error.what();
  }
}

// A number is followed through operators that hand it on.
TEST(Rules, NumbersAreHandedOn) {
  for (const char* type : {"Identity", "TensorMove"}) {
    const std::string text =
        graph_or_refusal({data("x", 0, {2}), constant<float>("tenth", WireType::kFloat, {}, {0.1f}),
                          Op(type, "same", {"tenth:0"}), Op("Mul", "y", {"x:0", "same:0"})});
    EXPECT_TRUE(contains(text, "aten.mul.Tensor(%x, 0.1)")) << text;
  }
}

TEST(Rules, PrefetchesAreNotComputed) {
  const std::string text =
      graph_or_refusal({data("x", 0, {2}), Op("Cmo", "fetch", {"x:0"}).attr("max_size", int64_t{8}),
                        Op("Neg", "y", {"fetch:-1", "x:0"})});
  EXPECT_TRUE(contains(text, "aten.neg(%x)")) << text;
}

TEST(Rules, SizesThatOnlyARunKnowsAreNamed) {
  const std::vector<int64_t> window = {1, 1, 2, 2};
  EXPECT_EQ(
      graph_or_refusal({data("x", 0, {1, 2, -1, 8}), Op("AvgPoolV2", "y", {"x:0"})
                                                         .attr("ksize", window)
                                                         .attr("strides", window)
                                                         .attr("pads", std::vector<int64_t>{1, 1, 1, 1})
                                                         .attr("ceil_mode", true)}),
      "operator 'y' of type AvgPoolV2: sizes of the result of aten.avg_pool2d of f32[1, 2, d0, 8] do not follow from "
      "sizes of inputs");
}

std::string strided(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, int64_t offset) {
  return graph_or_refusal({data("x", 0, {2, 3}), int_list("sizes", sizes), int_list("strides", strides),
                           int_list("offset", {offset}),
                           Op("AsStrided", "y", {"x:0", "sizes:0", "strides:0", "offset:0"})});
}

TEST(Rules, StridedTensorsAreInsideOfTheirOperand) {
  EXPECT_TRUE(contains(strided({2, 2}, {3, 1}, 1), "aten.as_strided(")) << strided({2, 2}, {3, 1}, 1);
  EXPECT_TRUE(contains(strided({0, 9}, {3, 1}, 1), "aten.as_strided("));
  EXPECT_TRUE(contains(strided({2, 2}, {3, 1}, 2), "it reads element 6 of 6"));
  EXPECT_TRUE(contains(strided({2}, {1}, -1), "it reads element -1 of 6"));
  EXPECT_TRUE(contains(strided({2}, {-1}, 3), "size 2 and stride -1 are out of range"));
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(contains(strided({kHuge}, {kHuge}, 1), "are out of range"));
  EXPECT_TRUE(contains(strided({2}, {1, 1}, 0), "it has 1 sizes, 2 strides and 1 offsets"));
}

std::string view_copy(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, int64_t offset,
                      const std::string& dst = "copy:0") {
  const Message written = desc("dst", WireType::kFloat, {2, 3});
  return graph_or_refusal(
      {Op("RefData", "x").attr("index", int64_t{0}).output(desc("y", WireType::kFloat, {2, 3})), data("v", 1, {2}),
       Op("TensorMove", "copy", {"x:0"}), int_list("sizes", sizes), int_list("strides", strides),
       int_list("offset", {offset}), int_list("size", {2}), int_list("stride", {1}), int_list("zero", {0}),
       Op("ViewCopy", "y", {dst, "sizes:0", "strides:0", "offset:0", "v:0", "size:0", "stride:0", "zero:0"})
           .input(written)
           .output(written)});
}

TEST(Rules, WrittenPartsAreInsideOfTheirTensor) {
  EXPECT_TRUE(contains(view_copy({2}, {3}, 2), "aten.copy_(")) << view_copy({2}, {3}, 2);
  EXPECT_TRUE(contains(view_copy({2}, {3}, 3), "it reads element 6 of 6"));
  EXPECT_TRUE(contains(view_copy({3}, {1}, 0), "sizes 3 and 2 have to be equal"));
  EXPECT_TRUE(contains(view_copy({1, 2}, {3, 1}, 0), "the part has 2 dimensions, and its value has 1"));
  EXPECT_TRUE(contains(view_copy({2}, {3}, 2, "x:0"), "aten.copy_(%x, ")) << view_copy({2}, {3}, 2, "x:0");
}

TEST(Rules, BytesOfAnotherType) {
  const auto seen_as = [](int64_t number, int64_t size) {
    return graph_or_refusal({data("x", 0, {size}, WireType::kInt32),
                             Op("Bitcast", "y", {"x:0"}).attr_message("type", Message().integer(15, number))});
  };
  constexpr int64_t kFloat = 0, kInt64 = 9, kNone = 1000;
  EXPECT_TRUE(contains(seen_as(kFloat, 4), "aten.view.dtype(")) << seen_as(kFloat, 4);
  EXPECT_FALSE(contains(seen_as(kInt64, 3), "aten.view.dtype("));
  EXPECT_TRUE(contains(seen_as(kNone, 4), "its attribute 'type' is no element type"));
  EXPECT_TRUE(contains(graph_or_refusal({data("x", 0, {4}), Op("Bitcast", "y", {"x:0"})}), "type"));
}

TEST(Rules, CallsThatAreNotAllowed) {
  EXPECT_TRUE(contains(graph_or_refusal({data("x", 0, {2}), Op("Log", "y", {"x:0"}).attr("base", 1.0f)}),
                       "its attribute 'base' is -1, or above 0 and not 1, got 1"));
  EXPECT_TRUE(contains(graph_or_refusal({data("x", 0, {2, 3}), data("i", 1, {2}, WireType::kInt64), data("u", 2, {2}),
                                         Op("ScatterElements", "y", {"x:0", "i:0", "u:0"})}),
                       "its indices have as many dimensions as its data"));
  EXPECT_TRUE(contains(graph_or_refusal({data("x", 0, {2}), data("i", 1, {2}, WireType::kInt64), data("u", 2, {2}),
                                         Op("ScatterElements", "y", {"x:0", "i:0", "u:0"}).attr("reduction", "mul")}),
                       "its attribute 'reduction' is 'none' or 'add', got 'mul'"));
  const std::vector<int64_t> one = {1, 1, 1, 1}, none = {0, 0, 0, 0};
  EXPECT_TRUE(
      contains(graph_or_refusal({data("x", 0, {1, 2, 3, 3}), data("w", 1, {2, 4, 2, 2}), int_list("size", {1, 4, 5, 5}),
                                 Op("Conv2DTranspose", "y", {"size:0", "x:0", "w:0"})
                                     .attr("strides", one)
                                     .attr("pads", none)
                                     .attr("data_format", "NCHW")}),
               "sizes 4 and 5 have to be equal"));
}

// A host without operators has code for images by channels, and for pixels that are products.
TEST(Rules, ConvolutionsOfPixelsAreRowMajorUnlessTheyAreProducts) {
  const auto conv = [](bool pixels, int64_t kernel, int64_t step) {
    const std::vector<int64_t> steps = {1, 1, step, step}, none = {0, 0, 0, 0};
    return graph_or_refusal({data("rows", 0, {1, 4, 5, 5}), data("pixels", 1, {1, 5, 5, 4}),
                             data("taps", 2, {8, kernel, kernel, 4}), int_list("order", {0, 3, 1, 2}),
                             Op("Transpose", "x", {"pixels:0", "order:0"}), Op("Transpose", "w", {"taps:0", "order:0"}),
                             Op("Conv2D", "y", {pixels ? "x:0" : "rows:0", "w:0"})
                                 .attr("strides", steps)
                                 .attr("pads", none)
                                 .attr("data_format", "NCHW")});
  };
  EXPECT_TRUE(contains(conv(true, 3, 1), "f32[1, 8, 3, 3]{72, 9, 3, 1} = aten.convolution(")) << conv(true, 3, 1);
  EXPECT_TRUE(contains(conv(true, 1, 2), "f32[1, 8, 3, 3]{72, 9, 3, 1} = aten.convolution(")) << conv(true, 1, 2);
  EXPECT_TRUE(contains(conv(false, 1, 1), "f32[1, 8, 5, 5]{200, 25, 5, 1} = aten.convolution(")) << conv(false, 1, 1);
  EXPECT_TRUE(contains(conv(true, 1, 1), "f32[1, 8, 5, 5]{200, 1, 40, 8} = aten.convolution(")) << conv(true, 1, 1);
}

TEST(Rules, ConvolutionsOfImagesOfOnePixelAreProducts) {
  const auto conv = [](int64_t rows, const std::vector<int64_t>& pads) {
    return graph_or_refusal({data("x", 0, {-1, 4, rows, 1}), data("w", 1, {8, 4, 1, 1}), data("b", 2, {8}),
                             Op("Conv2D", "y", {"x:0", "w:0", "b:0"})
                                 .attr("strides", std::vector<int64_t>{1, 1, 2, 2})
                                 .attr("pads", pads)
                                 .attr("data_format", "NCHW")});
  };
  const std::vector<int64_t> none = {0, 0, 0, 0};
  EXPECT_TRUE(contains(conv(1, none), "aten.addmm(")) << conv(1, none);
  EXPECT_TRUE(contains(conv(1, none), ", 8, 1, 1]{8, 1, 1, 1} = aten.view(")) << conv(1, none);
  EXPECT_TRUE(contains(conv(2, none), "aten.convolution("));
  EXPECT_TRUE(contains(conv(1, {1, 1, 1, 1}), "aten.convolution("));
}

// Operands that are too small for what reads them would be read beyond their ends.
TEST(Rules, OperandsHaveTheSizesThatTheirReadersNeed) {
  const std::vector<int64_t> one = {1, 1, 1, 1}, none = {0, 0, 0, 0};
  const auto conv = [&](int64_t channels, int64_t bias, int64_t groups) {
    return graph_or_refusal({data("x", 0, {1, 6, 5, 5}), data("w", 1, {channels, 6 / groups, 3, 3}),
                             data("b", 2, {bias}),
                             Op("Conv2D", "y", {"x:0", "w:0", "b:0"})
                                 .attr("strides", one)
                                 .attr("pads", none)
                                 .attr("groups", groups)
                                 .attr("data_format", "NCHW")});
  };
  EXPECT_TRUE(contains(conv(6, 6, 3), "aten.convolution(")) << conv(6, 6, 3);
  EXPECT_TRUE(contains(conv(6, 2, 3), "sizes 2 and 6 have to be equal"));
  EXPECT_TRUE(contains(conv(4, 4, 3), "3 groups have the same number of filters each, got 4 filters"));
  EXPECT_TRUE(contains(graph_or_refusal({data("x", 0, {3, 4}), int_list("s", {4}), data("g", 1, {2}),
                                         Op("LayerNormV4", "y", {"x:0", "s:0", "g:0"})}),
                       "sizes 2 and 4 have to be equal"));
  EXPECT_TRUE(
      contains(graph_or_refusal({data("x", 0, {1, 4, 2}), data("p", 1, {2}),
                                 Op("BNInfer", "y", {"x:0", "p:0", "p:0", "p:0", "p:0"}).attr("epsilon", 1e-5f)}),
               "sizes 4 and 2 have to be equal"));
  const auto trained = [](int64_t parameters, bool training) {
    return graph_or_refusal({data("x", 0, {1, 4, 2}), data("p", 1, {parameters}),
                             Op("BatchNormV3", "y", {"x:0", "p:0", "p:0", "p:0", "p:0"})
                                 .attr("is_training", training)
                                 .output(desc("y", WireType::kFloat, {1, 4, 2}))});
  };
  EXPECT_TRUE(contains(trained(4, true), "aten._native_batch_norm_legit_functional(")) << trained(4, true);
  EXPECT_TRUE(contains(trained(2, true), "sizes 4 and 2 have to be equal"));
  EXPECT_TRUE(contains(trained(4, false), "its attribute 'is_training' is true, got false; BNInfer infers"));
  const auto untrained = [](const std::vector<int64_t>& grad) {
    return graph_or_refusal({data("g", 0, grad), data("x", 1, {1, 4, 2}), data("p", 2, {4}),
                             Op("BatchNormGradV3", "y", {"g:0", "x:0", "p:0", "p:0", "p:0", "p:0", "p:0"})});
  };
  EXPECT_TRUE(contains(untrained({1, 4, 2}), "aten.native_batch_norm_backward(")) << untrained({1, 4, 2});
  EXPECT_TRUE(contains(untrained({1, 4, 3}), "sizes 2 and 3 have to be equal"));
  EXPECT_TRUE(contains(untrained({1, 4}), "its inputs 'dy' and 'x' have the same sizes"));
  const auto gather = [](const std::vector<int64_t>& index) {
    return graph_or_refusal({data("x", 0, {2, 3}), data("i", 1, index, WireType::kInt64),
                             Op("GatherElements", "y", {"x:0", "i:0"}).attr("dim", int64_t{1})});
  };
  EXPECT_TRUE(contains(gather({1, 9}), "aten.gather(")) << gather({1, 9});
  EXPECT_TRUE(contains(gather({3, 9}), "sizes 3 and 2 have to be equal"));
  const auto attention = [](const std::vector<int64_t>& mask, int64_t heads = 2, int64_t kv_heads = 2) {
    return graph_or_refusal({data("q", 0, {1, heads, 4, 16}), data("k", 1, {1, 2, 5, 16}), data("m", 2, mask),
                             Op("PromptFlashAttention", "y", {"q:0", "k:0", "k:0", "m:0"})
                                 .attr("num_heads", heads)
                                 .attr("num_key_value_heads", kv_heads)
                                 .attr("input_layout", "BNSD")});
  };
  EXPECT_TRUE(contains(attention({1, 1, 4, 5}), "_scaled_dot_product")) << attention({1, 1, 4, 5});
  EXPECT_TRUE(contains(attention({1, 1, 4, 3}), "sizes 3 and 5 have to be equal"));
  EXPECT_TRUE(contains(attention({1, 6, 4, 5}, 6), "_scaled_dot_product")) << attention({1, 6, 4, 5}, 6);
  EXPECT_TRUE(contains(attention({1, 6, 4, 5}, 6, 1), "sizes 2 and 1 have to be equal"));
  EXPECT_TRUE(contains(attention({1, 5, 4, 5}, 5), "'num_heads', 5, is a multiple of 'num_key_value_heads', 2"));
}

// Calls of operators that sort, find, pad or group elements, which eager mode refuses, too.
TEST(Rules, ElementsThatAreNotThere) {
  const auto largest = [](int64_t k, int64_t dim) {
    return graph_or_refusal({data("x", 0, {2, 3}),
                             constant<int32_t>("k", WireType::kInt32, {}, {static_cast<int32_t>(k)}),
                             Op("TopKV2", "y", {"x:0", "k:0"}).attr("dim", dim)});
  };
  EXPECT_TRUE(contains(largest(3, 1), "aten.topk(%x, 3, 1)")) << largest(3, 1);
  EXPECT_TRUE(contains(largest(3, 0), "its input 'k' is 0 to the size of the dimension, 2, got 3"));
  EXPECT_TRUE(contains(largest(-1, 0), "its input 'k' is 0 to the size of the dimension, 2, got -1"));
  EXPECT_TRUE(contains(largest(1, 2), "dimension 2 is outside of a tensor of 2 dimensions"));
  const auto search = [](const std::vector<int64_t>& sequence, const std::vector<int64_t>& values) {
    return graph_or_refusal({data("s", 0, sequence), data("v", 1, values), Op("SearchSorted", "y", {"s:0", "v:0"})});
  };
  EXPECT_TRUE(contains(search({4}, {2, 3}), "aten.searchsorted.Tensor(")) << search({4}, {2, 3});
  EXPECT_TRUE(contains(search({4, 5}, {2, 3}), "sizes 4 and 2 have to be equal"));
  EXPECT_TRUE(contains(search({4, 5}, {3}), "its sequence has 1 dimension or as many as its values, got 2 and 1"));
  EXPECT_TRUE(contains(graph_or_refusal({data("x", 0, {4}), Op("Histogram", "y", {"x:0"}).attr("min", 2.0f)}),
                       "its attribute 'max' is at least 'min'"));
  const auto mirrored = [](int64_t before) {
    return graph_or_refusal({data("x", 0, {1, 4}), int_list("p", {0, 0, before, 0}),
                             Op("MirrorPad", "y", {"x:0", "p:0"}).attr("mode", "REFLECT")});
  };
  EXPECT_TRUE(contains(mirrored(3), "aten._unsafe_index.Tensor(")) << mirrored(3);
  EXPECT_TRUE(contains(mirrored(4), "padding of 4 and 0 is too much for a size of 4"));
}

TEST(Rules, GroupsOfRowsHaveAMatrixEach) {
  const auto product = [](int64_t k, int64_t groups, int64_t kind) {
    return graph_or_refusal({data("x", 0, {6, k}), data("w", 1, {2, 8, 4}), data("g", 2, {groups}, WireType::kInt64),
                             Op("GroupedMatmul", "y", {"x:0", "w:0", "g:0"})
                                 .input(desc("x0", WireType::kFloat, {6, k}))
                                 .input(desc("weight0", WireType::kFloat, {2, 8, 4}))
                                 .input(desc("group_list", WireType::kInt64, {groups}))
                                 .attr("split_item", int64_t{3})
                                 .attr("group_type", int64_t{0})
                                 .attr("group_list_type", kind)});
  };
  EXPECT_TRUE(contains(product(8, 2, 0), "aten._grouped_mm(%x, %w, %g")) << product(8, 2, 0);
  EXPECT_TRUE(contains(product(8, 2, 1), "aten.cumsum(%g, 0")) << product(8, 2, 1);
  EXPECT_TRUE(contains(product(7, 2, 0), "sizes 7 and 8 have to be equal"));
  EXPECT_TRUE(contains(product(8, 3, 0), "sizes 2 and 3 have to be equal"));
  EXPECT_TRUE(contains(product(8, 2, 2), "its attribute 'group_list_type' has to be 0 or 1, got 2"));
}

}  // namespace
}  // namespace npugraph::ge
