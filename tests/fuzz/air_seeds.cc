// SPDX-License-Identifier: Apache-2.0
#include "air_seeds.h"

#include <cmath>
#include <cstdint>

#include "ge/model_builder.h"

namespace npugraph::fuzz {

namespace {

using ge::data;
using ge::desc;
using ge::int_list;
using ge::Op;
using ge::WireType;

Op number(const std::string& name, int64_t value) { return ge::constant<int64_t>(name, WireType::kInt64, {}, {value}); }

Op weights(const std::string& name, const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t size : dims) count *= size;
  std::vector<float> elements;
  for (int64_t i = 0; i < count; ++i) elements.push_back(std::sin(static_cast<float>(i)));
  return ge::constant(name, WireType::kFloat, dims, elements);
}

Op outputs(const std::vector<std::string>& results) { return {"NetOutput", "out", results}; }

// A residual block with an unknown number of rows.
std::string mlp() {
  return ge::serialise({data("x", 0, {-1, 8}), data("r", 1, {-1, 8}), weights("w1", {16, 8}), weights("b1", {16}),
                        Op("MatMulV2", "up", {"x:0", "w1:0", "b1:0"}).attr("transpose_x2", true),
                        Op("GeluV2", "active", {"up:0"}).attr("approximate", "tanh"), weights("w2", {16, 8}),
                        Op("MatMulV2", "down", {"active:0", "w2:0"}), Op("Add", "sum", {"down:0", "r:0"}),
                        int_list("width", {8}), weights("gamma", {8}), weights("beta", {8}),
                        Op("LayerNormV4", "norm", {"sum:0", "width:0", "gamma:0", "beta:0"}).attr("epsilon", 1e-5f),
                        outputs({"norm:0", "sum:0"})});
}

// Attention by its parts, with sizes that the graph computes.
std::string attention() {
  return ge::serialise(
      {data("x", 0, {-1, 4, 8}),
       Op("Shape", "shape", {"x:0"}).attr("dtype", int64_t{9}),
       number("zero", 0),
       Op("GatherV2", "batch", {"shape:0", "zero:0", "zero:0"}),
       number("four", 4),
       number("two", 2),
       Op("Pack", "sizes", {"batch:0", "four:0", "two:0", "four:0"}).attr("axis", int64_t{0}).attr("N", int64_t{4}),
       Op("Reshape", "split", {"x:0", "sizes:0"}),
       int_list("perm", {0, 2, 1, 3}),
       Op("Transpose", "heads", {"split:0", "perm:0"}),
       Op("BatchMatMulV2", "scores", {"heads:0", "heads:0"}).attr("adj_x2", true),
       Op("Muls", "scaled", {"scores:0"}).attr("value", 0.5f),
       Op("SoftmaxV2", "softmax", {"scaled:0"}).attr("axes", std::vector<int64_t>{-1}),
       Op("BatchMatMulV2", "mixed", {"softmax:0", "heads:0"}),
       Op("Transpose", "back", {"mixed:0", "perm:0"}),
       int_list("flat", {-1, 8}),
       Op("Reshape", "rows", {"back:0", "flat:0"}),
       weights("gamma", {8}),
       Op("RmsNorm", "norm", {"rows:0", "gamma:0"}).attr("epsilon", 1e-6f),
       outputs({"norm:0"})});
}

std::string image() {
  const std::vector<int64_t> ones = {1, 1, 1, 1}, pads = {1, 1, 1, 1}, two = {2, 2}, none = {0, 0};
  return ge::serialise(
      {data("x", 0, {-1, 3, 8, 8}), weights("filter", {4, 3, 3, 3}),
       Op("Conv2D", "conv", {"x:0", "filter:0"})
           .attr("strides", ones)
           .attr("pads", pads)
           .attr("dilations", ones)
           .attr("data_format", "NCHW"),
       weights("scale", {4}), weights("offset", {4}), weights("mean", {4}),
       ge::constant<float>("variance", WireType::kFloat, {4}, {1, 2, 3, 4}),
       Op("BNInfer", "norm", {"conv:0", "scale:0", "offset:0", "mean:0", "variance:0"}).attr("epsilon", 1e-5f),
       Op("Relu", "active", {"norm:0"}),
       Op("MaxPoolWithArgmaxV3", "pool", {"active:0"})
           .attr("ksize", two)
           .attr("strides", two)
           .attr("pads", none)
           .output(desc("y", WireType::kFloat, {}))
           .output(desc("argmax", WireType::kInt64, {})),
       int_list("axes", {2, 3}), Op("ReduceMean", "average", {"pool:0", "axes:0"}).attr("keep_dims", false),
       outputs({"average:0"})});
}

// Tokens, positions, masks, and a cache that is written.
std::string decoder() {
  return ge::serialise(
      {data("tokens", 0, {2, 3}, WireType::kInt64),
       data("place", 1, {1}, WireType::kInt64),
       Op("RefData", "cache").attr("index", int64_t{2}).output(desc("y", WireType::kFloat, {2, 6, 4})),
       weights("table", {9, 4}),
       number("axis", 0),
       Op("GatherV2", "embedded", {"table:0", "tokens:0", "axis:0"}),
       int_list("begin", {-1}),
       int_list("end", {INT64_MAX}),
       int_list("dim", {1}),
       Op("StridedSliceV2", "last", {"embedded:0", "begin:0", "end:0", "dim:0"}),
       int_list("mask", {0, 1, 0}),
       Op("TensorMove", "old", {"cache:0"}),
       Op("IndexPutV2", "next", {"old:0", "last:0", "mask:0", "mask:0", "place:0"}).attr("accumulate", false),
       Op("Assign", "write", {"cache:0", "next:0"}),
       number("one", 1),
       Op("Add", "both", {"next:0", "last:0"}),
       Op("Swish", "gate", {"both:0"}).attr("scale", 1.0f),
       Op("Mul", "gated", {"both:0", "gate:0"}),
       Op("Greater", "positive", {"gated:0", "both:0"}),
       Op("SelectV2", "chosen", {"positive:0", "gated:0", "both:0"}),
       int_list("all", {1}),
       Op("ReduceSum", "sum", {"chosen:0", "all:0"}).attr("keep_dims", true),
       Op("Cast", "half", {"sum:0"}).attr("dst_type", int64_t{1}),
       Op("Cast", "whole", {"half:0"}).attr("dst_type", int64_t{0}),
       outputs({"whole:0", "write:-1"})});
}

// Attention of one operator, with a mask of computed values.
std::string fused() {
  return ge::serialise({data("q", 0, {1, 2, -1, 8}), data("k", 1, {1, 2, -1, 8}), data("v", 2, {1, 2, -1, 8}),
                        Op("PromptFlashAttention", "attended", {"q:0", "k:0", "v:0"})
                            .attr("num_heads", int64_t{2})
                            .attr("num_key_value_heads", int64_t{2})
                            .attr("scale_value", 0.35f)
                            .attr("input_layout", "BNSD"),
                        int_list("perm", {0, 2, 1, 3}), Op("Transpose", "moved", {"attended:0", "perm:0"}),
                        int_list("flat", {1, -1, 16}), Op("Reshape", "joined", {"moved:0", "flat:0"}),
                        int_list("pads", {0, 0, 1, 0, 0, 2}), Op("PadV3", "padded", {"joined:0", "pads:0"}),
                        int_list("twice", {1, 2, 1}), Op("Tile", "tiled", {"padded:0", "twice:0"}), number("two", 2),
                        int_list("parts", {10, -1}),
                        ge::Op("SplitV", "split", {"tiled:0", "parts:0", "two:0"}).attr("num_split", int64_t{2}),
                        Op("Tanh", "a", {"split:0"}), Op("Exp", "b", {"split:1"}),
                        Op("ConcatV2", "both", {"b:0", "a:0", "two:0"}).attr("N", int64_t{2}), outputs({"both:0"})});
}

// Operators on tensors without elements.
std::string empty() {
  return ge::serialise({data("x", 0, {-1, 8}),
                        int_list("none", {0, 1}),
                        Op("Tile", "e", {"x:0", "none:0"}),
                        Op("Exp", "a", {"e:0"}),
                        number("zero", 0),
                        number("one", 1),
                        Op("ConcatV2", "rows", {"e:0", "a:0", "zero:0"}).attr("N", int64_t{2}),
                        Op("ConcatV2", "wide", {"a:0", "rows:0", "one:0"}).attr("N", int64_t{2}),
                        weights("w", {16, 8}),
                        Op("MatMulV2", "product", {"wide:0", "w:0"}),
                        Op("SoftmaxV2", "soft", {"product:0"}).attr("axes", std::vector<int64_t>{-1}),
                        int_list("first", {0}),
                        Op("ReduceSum", "sum", {"soft:0", "first:0"}).attr("keep_dims", true),
                        int_list("perm", {1, 0}),
                        Op("Transpose", "moved", {"soft:0", "perm:0"}),
                        int_list("pads", {0, 0, 1, 2}),
                        Op("PadV3", "padded", {"moved:0", "pads:0"}),
                        Op("MatMulV2", "back", {"sum:0", "padded:0"}),
                        Op("ConcatV2", "long", {"moved:0", "padded:0", "one:0"}).attr("N", int64_t{2}),
                        outputs({"back:0", "rows:0", "long:0"})});
}

// Elements, rows and their sums, of several types.
std::string rows() {
  const auto to = [](const char* name, const char* x, int64_t type) {
    return Op("Cast", name, {x}).attr("dst_type", type);
  };
  return ge::serialise({data("x", 0, {-1, 6}),
                        data("y", 1, {-1, 6}),
                        data("r", 2, {6}),
                        data("i", 3, {-1, 6}, WireType::kInt64),
                        int_list("last", {-1}),
                        int_list("first", {0}),
                        number("axis", -1),
                        Op("Sub", "a", {"x:0", "r:0"}),
                        Op("Abs", "b", {"a:0"}),
                        Op("ReduceMax", "top", {"b:0", "last:0"}).attr("keep_dims", true),
                        Op("Cumsum", "run", {"y:0", "axis:0"}),
                        Op("Maximum", "c", {"run:0", "top:0"}),
                        Op("ReduceMean", "mean", {"c:0", "first:0"}).attr("keep_dims", true),
                        Op("RealDiv", "d", {"c:0", "mean:0"}),
                        Op("Tril", "e", {"d:0"}).attr("diagonal", int64_t{1}),
                        Op("Less", "below", {"e:0", "y:0"}),
                        Op("ReduceAny", "any", {"below:0", "last:0"}).attr("keep_dims", true),
                        Op("LogicalAnd", "both", {"below:0", "any:0"}),
                        Op("SelectV2", "f", {"both:0", "e:0", "y:0"}),
                        Op("ArgMaxV2", "place", {"f:0", "axis:0"}),
                        to("half", "f:0", 27),
                        Op("Sigmoid", "g", {"half:0"}),
                        Op("Mul", "h", {"g:0", "half:0"}),
                        Op("BitwiseAnd", "bits", {"i:0", "i:0"}),
                        to("whole", "bits:0", 0),
                        Op("Add", "j", {"whole:0", "f:0"}),
                        Op("LogSoftmaxV2", "k", {"j:0"}).attr("axes", std::vector<int64_t>{-1}),
                        outputs({"k:0", "h:0", "place:0", "mean:0", "bits:0"})});
}

// Elements at other places.
std::string moves() {
  return ge::serialise({data("x", 0, {2, 4, 6}),
                        data("i", 1, {2, 4, 6}, WireType::kInt64),
                        data("n", 2, {-1, 4}),
                        int_list("perm", {0, 2, 1}),
                        Op("Transpose", "t", {"x:0", "perm:0"}),
                        int_list("offsets", {0, 1, 0}),
                        int_list("size", {2, 4, 4}),
                        Op("Slice", "s", {"t:0", "offsets:0", "size:0"}),
                        Op("Unpack", "u", {"s:0"}).attr("num", int64_t{2}).attr("axis", int64_t{0}),
                        Op("Pack", "p", {"u:1", "u:0"}).attr("axis", int64_t{1}).attr("N", int64_t{2}),
                        number("axis", 2),
                        Op("Split", "h", {"axis:0", "x:0"}).attr("num_split", int64_t{2}),
                        Op("GatherElements", "g", {"x:0", "i:0"}).attr("dim", int64_t{1}),
                        Op("ScatterElements", "w", {"x:0", "i:0", "g:0"}).attr("axis", int64_t{2}),
                        Op("Neg", "v", {"h:1"}),
                        Op("ConcatV2", "c", {"h:0", "v:0", "axis:0"}).attr("N", int64_t{2}),
                        Op("Exp", "e", {"c:0"}),
                        Op("Unsqueeze", "o", {"n:0"}).attr("axes", std::vector<int64_t>{1}),
                        int_list("wide", {-1, 3, 4}),
                        Op("BroadcastTo", "b", {"o:0", "wide:0"}),
                        Op("Tanh", "q", {"b:0"}),
                        int_list("pads", {0, 1, 1, 0, 0, 2}),
                        Op("PadV3", "d", {"q:0", "pads:0"}),
                        int_list("places", {1, 0, 1}),
                        number("zero", 0),
                        Op("GatherV2", "r", {"e:0", "places:0", "zero:0"}),
                        int_list("strided_size", {2, 3}),
                        int_list("strides", {6, 2}),
                        number("start", 1),
                        Op("AsStrided", "z", {"x:0", "strided_size:0", "strides:0", "start:0"}),
                        outputs({"p:0", "w:0", "d:0", "r:0", "z:0"})});
}

// Grouped, dilated and transposed convolutions, pools, norms of groups.
std::string windows() {
  const std::vector<int64_t> ones = {1, 1, 1, 1}, twos = {1, 1, 2, 2}, pads = {1, 1, 1, 1}, none = {0, 0, 0, 0};
  return ge::serialise({data("x", 0, {2, 4, 7, 7}), weights("grouped", {4, 2, 3, 3}), weights("bias", {4}),
                        Op("Conv2D", "conv", {"x:0", "grouped:0", "bias:0"})
                            .attr("strides", ones)
                            .attr("pads", std::vector<int64_t>{2, 2, 2, 2})
                            .attr("dilations", twos)
                            .attr("groups", int64_t{2})
                            .attr("data_format", "NCHW"),
                        weights("gamma", {4}), weights("beta", {4}),
                        Op("GroupNormV2", "norm", {"conv:0", "gamma:0", "beta:0"})
                            .attr("num_groups", int64_t{2})
                            .attr("data_format", "NCHW"),
                        Op("Softplus", "soft", {"norm:0"}),
                        Op("AvgPoolV2", "pool", {"soft:0"})
                            .attr("ksize", std::vector<int64_t>{1, 1, 3, 3})
                            .attr("strides", twos)
                            .attr("pads", pads)
                            .attr("data_format", "NCHW"),
                        Op("AdaptiveAvgPool2d", "mean", {"soft:0"}).attr("output_size", std::vector<int64_t>{2, 3}),
                        int_list("size", {2, 2, 9, 9}), weights("back", {4, 2, 3, 3}),
                        Op("Conv2DTranspose", "up", {"size:0", "pool:0", "back:0"})
                            .attr("strides", twos)
                            .attr("pads", none)
                            .attr("data_format", "NCHW"),
                        outputs({"up:0", "mean:0", "pool:0"})});
}

}  // namespace

std::vector<std::string> air_seeds() {
  return {mlp(), attention(), image(), decoder(), fused(), empty(), rows(), moves(), windows()};
}

}  // namespace npugraph::fuzz
