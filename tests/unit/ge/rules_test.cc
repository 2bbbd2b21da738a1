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
std::string imported(std::vector<Op> ops) {
  ops.push_back(Op("NetOutput", "out", {"y:0"}));
  const Model model = model_of(ops);
  try {
    return ir::print(import_graph(model, model.graphs.front(), Device{}));
  } catch (const UserError& error) {
    return error.what();
  }
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A number is followed through operators that hand it on.
TEST(Rules, NumbersAreHandedOn) {
  for (const char* type : {"Identity", "TensorMove"}) {
    const std::string text = imported({data("x", 0, {2}), constant<float>("tenth", WireType::kFloat, {}, {0.1f}),
                                       Op(type, "same", {"tenth:0"}), Op("Mul", "y", {"x:0", "same:0"})});
    EXPECT_TRUE(contains(text, "aten.mul.Tensor(%x, 0.1)")) << text;
  }
}

TEST(Rules, SizesThatOnlyARunKnowsAreNamed) {
  const std::vector<int64_t> window = {1, 1, 2, 2};
  EXPECT_EQ(
      imported({data("x", 0, {1, 2, -1, 8}), Op("AvgPoolV2", "y", {"x:0"})
                                                 .attr("ksize", window)
                                                 .attr("strides", window)
                                                 .attr("pads", std::vector<int64_t>{1, 1, 1, 1})
                                                 .attr("ceil_mode", true)}),
      "operator 'y' of type AvgPoolV2: sizes of the result of aten.avg_pool2d of f32[1, 2, d0, 8] do not follow from "
      "sizes of inputs");
}

std::string strided(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, int64_t offset) {
  return imported({data("x", 0, {2, 3}), int_list("sizes", sizes), int_list("strides", strides),
                   int_list("offset", {offset}), Op("AsStrided", "y", {"x:0", "sizes:0", "strides:0", "offset:0"})});
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

TEST(Rules, CallsThatAreNotAllowed) {
  EXPECT_TRUE(contains(imported({data("x", 0, {2}), Op("Log", "y", {"x:0"}).attr("base", 1.0f)}),
                       "its attribute 'base' is -1, or above 0 and not 1, got 1"));
  EXPECT_TRUE(contains(imported({data("x", 0, {2, 3}), data("i", 1, {2}, WireType::kInt64), data("u", 2, {2}),
                                 Op("ScatterElements", "y", {"x:0", "i:0", "u:0"})}),
                       "its indices have as many dimensions as its data"));
  EXPECT_TRUE(contains(imported({data("x", 0, {2}), data("i", 1, {2}, WireType::kInt64), data("u", 2, {2}),
                                 Op("ScatterElements", "y", {"x:0", "i:0", "u:0"}).attr("reduction", "mul")}),
                       "its attribute 'reduction' is 'none' or 'add', got 'mul'"));
  const std::vector<int64_t> one = {1, 1, 1, 1}, none = {0, 0, 0, 0};
  EXPECT_TRUE(contains(imported({data("x", 0, {1, 2, 3, 3}), data("w", 1, {2, 4, 2, 2}), int_list("size", {1, 4, 5, 5}),
                                 Op("Conv2DTranspose", "y", {"size:0", "x:0", "w:0"})
                                     .attr("strides", one)
                                     .attr("pads", none)
                                     .attr("data_format", "NCHW")}),
                       "sizes 4 and 5 have to be equal"));
}

}  // namespace
}  // namespace npugraph::ge
