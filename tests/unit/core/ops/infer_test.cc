// SPDX-License-Identifier: Apache-2.0
// Rules of the table: `op(args)` on the values below -> types of the results, "?" if the rule cannot tell, or the
// error.
#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/text.h"
#include "ops/table.h"

namespace npugraph::ops {
namespace {

constexpr std::string_view kValues =
    "npugraph.graph 1 @test {\n"
    "symbol s0 : int [2, 1024]  symbol s1 : int [2, 64]  symbol u0 : int [0, inf]\n"
    "symbol n : int [0, inf]\n"
    "input %x : f32[2, 3, 4]  input %y : f32[2, 3, 4]{12, 1, 3}  input %row : f32[4]  input %col : f32[3, 1]\n"
    "input %s : f32[s0, 64]  input %q : f32[s0, s1, 64]  input %e : f32[3, 4]{0, 1}  input %zero : f32[0, 4]\n"
    "input %i : i64[2, 3, 4]  input %b : bool[2, 3, 4]  input %h : bf16[2, 3, 4]  input %d : f64[]  input %di : i64[]\n"
    "input %m : f32[4, 5]  input %n : f32[5, 6]  input %t : f32[5, 4]{1, 5}  input %bm : f32[2, 4, 7]\n"
    "input %img : f32[2, 3, 8, 8]{192, 1, 24, 3}  input %u : f32[u0]  input %c : c64[4]  input %one : f32[2, 1, 4]\n"
    "input %vol : f32[2, 3, 4, 4, 4]{192, 1, 48, 12, 3}\n"
    "input %ct : c64[3, 4]{1, 3}  input %s1 : f32[s1, 64]\n"
    "input %it : i64[3, 2]{1, 3}  input %ic : i64[3]  input %ids : i64[6]  input %wh : bf16[4, 5]  input %ch : f32[3]\n"
    "input %key : f32[1, 1, 1, n]  input %query : f32[1, 1, n, 1]  input %image : f32[2, n, 8, n]{64*n, 1, 8, 8}\n"
    "input %ones : f32[2, 1, 4, 1, 4]{1, 32, 8, 8, 2}  input %turned : i64[2, 1, 4, 4]{1, 32, 8, 2}\n"
    "input %o : opaque \"sparse\"\n";

// The types that the rule infers for this call, with the offsets of views; "?", or the error.
std::string infer(const std::string& call, OpenStrides open_strides = OpenStrides::kNone) {
  // Gives each returned tensor a placeholder type. One result is enough for a list of tensors.
  const std::string name = call.substr(0, call.find('('));
  const ir::Op& op = require(name);
  std::string results;
  std::string types;
  for (const auto& r : op.schema.returns) {
    if (!r.type.starts_with("Tensor")) continue;
    results += (results.empty() ? "%r" : ", %r") + std::to_string(results.size());
    types += types.empty() ? "f32[]" : ", f32[]";
  }
  const std::string text =
      std::string(kValues) + (results.empty() ? "" : results + " : " + types + " = ") + call + "\nreturn\n}";
  const ir::Graph graph = ir::parse(text, "test", registry());
  const ir::Node& node = graph.node(0);
  try {
    const auto inferred = infer_results(graph, node, open_strides);
    if (!inferred) return "?";
    std::string out;
    for (size_t i = 0; i < inferred->types.size(); ++i) {
      out += (i > 0 ? "; " : "") + ir::to_text(inferred->types[i].value_or(ir::OpaqueType{}));
      if (!inferred->views.empty()) out += " at " + inferred->views[i].offset.str();
    }
    return out;
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(Infer, ElementwiseKeepsLayouts) {
  EXPECT_EQ(infer("aten.relu(%y)"), "f32[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten.add.Tensor(%y, %y)"), "f32[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten.add.Tensor(%x, %y)"), "f32[2, 3, 4]{12, 4, 1}") << "the first operand decides";
  EXPECT_EQ(infer("aten.add.Tensor(%y, %x)"), "f32[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten.relu(%e)"), "f32[3, 4]{4, 1}") << "an expanded tensor becomes dense";
  EXPECT_EQ(infer("aten.relu(%img)"), "f32[2, 3, 8, 8]{192, 1, 24, 3}");
  EXPECT_EQ(infer("aten.relu(%zero)"), "f32[0, 4]{4, 1}");
  EXPECT_EQ(infer("aten.relu(%o)"), "?");
}

TEST(Infer, ElementwiseBroadcasts) {
  EXPECT_EQ(infer("aten.mul.Tensor(%x, %row)"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.mul.Tensor(%col, %row)"), "f32[3, 4]{4, 1}");
  EXPECT_EQ(infer("aten.mul.Tensor(%y, %d)"), "f32[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten.mul.Tensor(%s, %s)"), "f32[s0, 64]{64, 1}");
  EXPECT_EQ(infer("aten.mul.Tensor(%q, 2)"), "f32[s0, s1, 64]{64*s1, 64, 1}");
  EXPECT_EQ(infer("aten.mul.Tensor(%u, %row)"), "?");
  EXPECT_EQ(infer("aten.mul.Tensor(%x, %m)"), "aten.mul.Tensor: sizes 3 and 4 cannot be broadcast together");
  EXPECT_EQ(infer("aten.where.self(%b, %row, %col)"), "f32[2, 3, 4]{12, 4, 1}");
}

TEST(Infer, OpenStridesAreRowMajorOnRequest) {
  const auto row_major = [](const std::string& call) { return infer(call, OpenStrides::kRowMajor); };
  EXPECT_EQ(infer("aten.le.Tensor(%key, %query)"), "?") << "n may be 1";
  EXPECT_EQ(row_major("aten.le.Tensor(%key, %query)"), "bool[1, 1, n, n]{n*n, n*n, n, 1}");
  EXPECT_EQ(infer("aten._adaptive_avg_pool2d(%image, [2, 2])"), "?");
  EXPECT_EQ(row_major("aten._adaptive_avg_pool2d(%image, [2, 2])"), "f32[2, n, 2, 2]{4*n, 4, 2, 1}");
  EXPECT_EQ(row_major("aten.relu(%y)"), "f32[2, 3, 4]{12, 1, 3}") << "eager's strides are known";
}

TEST(Infer, TypesArePromotedAsInTorch) {
  EXPECT_EQ(infer("aten.add.Tensor(%h, %x)"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.add.Tensor(%h, %d)"), "bf16[2, 3, 4]{12, 4, 1}")
      << "a tensor without dimensions is of lower rank";
  EXPECT_EQ(infer("aten.add.Tensor(%h, 1.5)"), "bf16[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.add.Tensor(%i, %d)"), "f64[2, 3, 4]{12, 4, 1}") << "but of a higher class";
  EXPECT_EQ(infer("aten.add.Tensor(%i, 1.5)"), "?") << "torch's default dtype decides";
  EXPECT_EQ(infer("aten.add.Tensor(%b, 1)"), "i64[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.add.Tensor(%b, %b)"), "bool[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.add.Tensor(%i, %di)"), "i64[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.mul.Tensor(%c, %row)"), "c64[4]{1}");
  EXPECT_EQ(infer("aten.div.Tensor(%i, %i)"), "?");
  EXPECT_EQ(infer("aten.div.Tensor_mode(%i, %i, rounding_mode=\"floor\")"), "i64[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.exp(%i)"), "?");
  EXPECT_EQ(infer("aten.eq.Tensor(%h, %x)"), "bool[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.logical_not(%x)"), "bool[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.pow.Tensor_Scalar(%h, 2)"), "bf16[2, 3, 4]{12, 4, 1}");
}

TEST(Infer, WritesReturnTheirOperand) {
  EXPECT_EQ(infer("aten.add_.Tensor(%y, %x)"), "f32[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten.copy_(%h, %x)"), "bf16[2, 3, 4]{12, 4, 1}");
}

TEST(Infer, Reductions) {
  EXPECT_EQ(infer("aten.sum(%y)"), "f32[]{}");
  EXPECT_EQ(infer("aten.sum.dim_IntList(%y, [1])"), "f32[2, 4]{4, 1}");
  EXPECT_EQ(infer("aten.sum.dim_IntList(%y, [-1, 0], true)"), "f32[1, 3, 1]{3, 1, 1}");
  EXPECT_EQ(infer("aten.sum.dim_IntList(%i, [0])"), "i64[3, 4]{4, 1}");
  EXPECT_EQ(infer("aten.sum.dim_IntList(%b, none)"), "i64[]{}");
  EXPECT_EQ(infer("aten.mean.dim(%s, [-1], true)"), "f32[s0, 1]{1, 1}");
  EXPECT_EQ(infer("aten.mean.dim(%h, [0], dtype=f32)"), "f32[3, 4]{4, 1}");
  EXPECT_EQ(infer("aten.max.dim(%h, 1)"), "bf16[2, 4]{4, 1}; i64[2, 4]{4, 1}");
  EXPECT_EQ(infer("aten.argmax(%x, 2)"), "i64[2, 3]{3, 1}");
  EXPECT_EQ(infer("aten.any.dim(%x, 0)"), "bool[3, 4]{4, 1}");
  EXPECT_EQ(infer("aten.sum.dim_IntList(%x, [3])"),
            "aten.sum.dim_IntList: dimension 3 is out of range for a tensor of rank 3");
}

TEST(Infer, Products) {
  EXPECT_EQ(infer("aten.mm(%m, %n)"), "f32[4, 6]{6, 1}");
  EXPECT_EQ(infer("aten.addmm(%row, %t, %m)"), "f32[5, 5]{5, 1}");
  EXPECT_EQ(infer("aten.bmm(%x, %bm)"), "f32[2, 3, 7]{21, 7, 1}");
  EXPECT_EQ(infer("aten.mm(%m, %m)"), "aten.mm: inner sizes 5 and 4");
  EXPECT_EQ(infer("aten.mm(%x, %m)"), "aten.mm: tensors of rank 3 and 2, not 2");
  EXPECT_EQ(infer("aten.embedding(%m, %i)"), "f32[2, 3, 4, 5]{60, 20, 5, 1}");
}

TEST(Infer, IndicesOrderWhatSelfLeavesOpen) {
  EXPECT_EQ(infer("aten.index.Tensor(%m, [%it])"), "f32[3, 2, 5]{5, 15, 1}");
  EXPECT_EQ(infer("aten.index.Tensor(%m, [none, %it])"), "f32[4, 3, 2]{6, 1, 3}");
  EXPECT_EQ(infer("aten.index.Tensor(%y, [%it, none, %it])"), "f32[3, 2, 3]{3, 9, 1}");
  EXPECT_EQ(infer("aten.index.Tensor(%ones, [%turned])"), "f32[2, 1, 4, 4, 1, 4, 1, 4]{4, 512, 128, 32, 32, 8, 32, 1}")
      << "strides in dimensions of size 1 decide, too";
  EXPECT_EQ(infer("aten.index.Tensor(%m, [%it, %it, %it])"), "aten.index.Tensor: 3 indices for a tensor of rank 2");
  EXPECT_EQ(infer("aten.index.Tensor(%x, [%b]) defines(n = result 0 dim 0)"), "f32[n]{1}");
  EXPECT_EQ(infer("aten.index.Tensor(%x, [%b])"), "?") << "nothing says how many elements the mask has";
}

TEST(Infer, RepetitionsAndCounts) {
  EXPECT_EQ(infer("aten.repeat_interleave.self_int(%y, 2, -1)"), "f32[2, 3, 8]{24, 8, 1}");
  EXPECT_EQ(infer("aten.repeat_interleave.self_int(%y, 2)"), "f32[48]{1}");
  EXPECT_EQ(infer("aten.repeat_interleave.self_int(%s, 3, 0)"), "f32[3*s0, 64]{64, 1}");
  EXPECT_EQ(infer("aten.repeat_interleave.self_Tensor(%y, %ic, 1) defines(n = result 0 dim 1)"),
            "f32[2, n, 4]{4*n, 4, 1}");
  EXPECT_EQ(infer("aten.repeat_interleave.self_Tensor(%y, %ic, 1, output_size=7)"), "f32[2, 7, 4]{28, 4, 1}");
  EXPECT_EQ(infer("aten.one_hot(%it, 5)"), "i64[3, 2, 5]{10, 5, 1}");
  EXPECT_EQ(infer("aten.one_hot(%it) defines(n = result 0 dim 2)"), "i64[3, 2, n]{2*n, n, 1}");
  EXPECT_EQ(infer("aten.unique_dim(%y, 1) defines(n = result 0 dim 1)"), "f32[2, n, 4]{4, 8, 1}; i64[3]{1}; i64[n]{1}");
  EXPECT_EQ(infer("aten.unique_dim_consecutive(%y, -3) defines(n = result 0 dim 0)"),
            "f32[n, 3, 4]{12, 4, 1}; i64[2]{1}; i64[n]{1}");
  EXPECT_EQ(infer("aten.isin.Tensor_Scalar(%y, 1)"), "bool[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.item(%d)"), "");
  EXPECT_EQ(infer("aten.is_nonzero(%d)"), "");
  EXPECT_EQ(infer("aten.equal(%x, %y)"), "");
}

TEST(Infer, SumsOfBags) {
  EXPECT_EQ(infer("aten._embedding_bag(%wh, %ids, %ic)"), "bf16[3, 5]{5, 1}; i64[0]{1}; i64[3]{1}; i64[3]{1}");
  EXPECT_EQ(infer("aten._embedding_bag_forward_only(%m, %ids, %ic, include_last_offset=true)"),
            "f32[2, 5]{5, 1}; i64[0]{1}; i64[3]{1}; i64[3]{1}");
  EXPECT_EQ(infer("aten._embedding_bag_forward_only(%m, %ids, %ic, mode=2, include_last_offset=true)"),
            "f32[2, 5]{5, 1}; i64[6]{1}; i64[2]{1}; i64[2, 5]{5, 1}");
}

TEST(Infer, SoftmaxAndSorting) {
  EXPECT_EQ(infer("aten.softmax.int(%y, 1)"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.softmax.int(%h, 1, f32)"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.softmax.int(%i, 1)"), "?");
  EXPECT_EQ(infer("aten.log_softmax.int(%i, 1, f64)"), "f64[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten._log_softmax_backward_data(%y, %y, 1, f32)"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.argsort(%y)"), "i64[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten.argsort.stable(%e, stable=true)"), "i64[3, 4]{4, 1}");
  EXPECT_EQ(infer("aten.nansum(%y, [])"), "f32[]{}");
  EXPECT_EQ(infer("aten.any.dims(%y, [])"), "bool[2, 3, 4]{12, 4, 1}");
}

TEST(Infer, Norms) {
  EXPECT_EQ(infer("aten._fused_rms_norm(%y, [4], none, none)"), "f32[2, 3, 4]{12, 4, 1}; f32[2, 3, 1]{3, 1, 1}");
  EXPECT_EQ(infer("aten._fused_rms_norm(%h, [3, 4], none, none)"), "bf16[2, 3, 4]{12, 4, 1}; f32[2, 1, 1]{1, 1, 1}");
  EXPECT_EQ(infer("aten._fused_rms_norm(%img, [8], none, none)"),
            "f32[2, 3, 8, 8]{192, 1, 24, 3}; f32[2, 3, 8, 1]{24, 8, 1, 1}");
  EXPECT_EQ(infer("aten.native_layer_norm(%h, [4], %row, %row, 1e-5)"),
            "bf16[2, 3, 4]{12, 4, 1}; f32[2, 3, 1]{3, 1, 1}; f32[2, 3, 1]{3, 1, 1}");
  EXPECT_EQ(infer("aten.native_layer_norm(%row, [3, 4], none, none, 1e-5)"),
            "aten.native_layer_norm: normalized_shape has 2 dimensions, the input has 1");
  EXPECT_EQ(infer("aten.native_batch_norm(%img, none, none, %ch, %ch, true, 0.1, 1e-5)"),
            "f32[2, 3, 8, 8]{192, 1, 24, 3}; f32[3]{1}; f32[3]{1}");
  EXPECT_EQ(infer("aten.native_batch_norm(%h, none, none, %ch, %ch, false, 0.1, 1e-5)"),
            "bf16[2, 3, 4]{12, 4, 1}; f32[0]{1}; f32[0]{1}");
  EXPECT_EQ(infer("aten.native_batch_norm(%y, none, none, none, none, true, 0.1, 1e-5)"),
            "f32[2, 3, 4]{12, 4, 1}; f32[3]{1}; f32[3]{1}");
  EXPECT_EQ(infer("aten._batch_norm_with_update(%h, none, none, %ch, %ch, 0.1, 1e-5)"),
            "bf16[2, 3, 4]{12, 4, 1}; f32[3]{1}; f32[3]{1}; u8[0]{1}");
  EXPECT_EQ(infer("aten.native_batch_norm_backward(%img, %img, none, none, none, none, none, true, 1e-5, "
                  "[false, true, false])"),
            "opaque \"\"; f32[3]{1}; opaque \"\"");
  EXPECT_EQ(infer("aten._weight_norm_interface(%y, %one)"), "f32[2, 3, 4]{12, 4, 1}; f32[2, 1, 4]{4, 4, 1}");
}

TEST(Infer, Losses) {
  EXPECT_EQ(infer("aten.kl_div(%x, %x)"), "f32[]{}");
  EXPECT_EQ(infer("aten.kl_div(%x, %y, 0)"), "f32[2, 3, 4]{12, 1, 3}") << "the target decides";
  EXPECT_EQ(infer("aten.kl_div(%h, %row, 0, log_target=true)"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten._pdist_forward(%s)"), "f32[floordiv(s0*s0 - s0, 2)]{1}");
}

TEST(Infer, LeastSquares) {
  EXPECT_EQ(infer("aten.linalg_lstsq(%m, %m)"), "f32[5, 5]{1, 5}; f32[0]{1}; i64[]{}; f32[0]{1}");
  EXPECT_EQ(infer("aten.linalg_lstsq(%m, %row)"), "f32[5]{1}; f32[0]{1}; i64[]{}; f32[0]{1}");
  EXPECT_EQ(infer("aten.linalg_lstsq(%x, %x, driver=\"gelsd\")"),
            "f32[2, 4, 4]{16, 1, 4}; f32[0]{1}; i64[2]{1}; f32[2, 3]{3, 1}");
  EXPECT_EQ(infer("aten.linalg_lstsq(%t, %n, driver=\"gels\")"), "f32[4, 6]{1, 5}; f32[6]{1}; i64[0]{1}; f32[0]{1}");
  EXPECT_EQ(infer("aten.linalg_lstsq(%t, %n, driver=\"gelss\")"), "?") << "only full rank gives residuals";
}

TEST(Infer, RecurrentLayers) {
  const std::string call =
      "aten.mkldnn_rnn_layer(%x, %m, %m, %row, %row, %one, %one, false, [], 2, 5, 1, true, false, false, ";
  EXPECT_EQ(infer(call + "false)"), "f32[2, 3, 5]{15, 5, 1}; f32[2, 1, 4]{4, 4, 1}; f32[2, 1, 4]{4, 4, 1}; u8[0]{1}");
  EXPECT_EQ(infer(call + "true)"), "?") << "oneDNN decides on the size of the workspace";
}

TEST(Infer, ArgumentsOfConvolutionsAndMatrices) {
  EXPECT_EQ(infer("aten.convolution(%img, %img, none, [1], [1], [1], false, [0], 1)"), "f32[2, 2, 3, 3]{18, 1, 6, 2}");
  EXPECT_EQ(infer("aten.convolution(%img, %m, none, [1], [0], [1], false, [0], 1)"),
            "aten.convolution: an input of rank 4 and a weight of rank 2; both must be of the same rank from 3 to 5");
  EXPECT_EQ(infer("aten.convolution(%img, %img, none, [1, 1, 1], [0], [1], false, [0], 1)"),
            "aten.convolution: stride of 3 numbers; 2 or 1 are needed");
  EXPECT_EQ(infer("aten.linalg_inv_ex(%m)"), "aten.linalg_inv_ex: matrices of 4 by 5; square ones are needed");
  EXPECT_EQ(infer("aten._linalg_svd(%row)"), "aten._linalg_svd: a tensor of rank 1; 2 or more is needed");
  EXPECT_EQ(infer("aten._fft_c2c(%c, [-1], 0, true)"), "?") << "torch's kernels count no dimensions from the end";
}

TEST(Infer, CopiesAndFreshTensors) {
  EXPECT_EQ(infer("aten.clone(%y)"), "f32[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten.clone(%y, memory_format=memory_format.contiguous)"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.clone(%e)"), "f32[3, 4]{4, 1}");
  EXPECT_EQ(infer("aten.clone(%img, memory_format=memory_format.channels_last)"), "f32[2, 3, 8, 8]{192, 1, 24, 3}");
  EXPECT_EQ(infer("aten._to_copy(%y, dtype=bf16)"), "bf16[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten._to_copy(%y, device=device(\"npu\", 0))"), "f32[2, 3, 4]{12, 1, 3} device(\"npu\", 0)");
  EXPECT_EQ(infer("aten.cat([%m, %m], -1)"), "f32[4, 10]{10, 1}");
  EXPECT_EQ(infer("aten.cat([%s, %s])"), "f32[2*s0, 64]{64, 1}");
  EXPECT_EQ(infer("aten.cat([%x, %y])"), "f32[4, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.cat([%img, %img])"), "f32[4, 3, 8, 8]{192, 1, 24, 3}")
      << "channels last where all operands are";
  EXPECT_EQ(infer("aten.cat([%row, %m])"), "aten.cat: tensors of different ranks");
  EXPECT_EQ(infer("aten.cat([%u, %m])"), "?") << "torch leaves out a list without elements";
  EXPECT_EQ(infer("aten.cat([%m, %n])"), "aten.cat: sizes 5 and 6 in dimension 1");
  EXPECT_EQ(infer("aten.stack([%row, %row, %row], 1)"), "f32[4, 3]{3, 1}");
  EXPECT_EQ(infer("aten.arange(s0)"), "i64[s0]{1}");
  EXPECT_EQ(infer("aten.arange.start_step(10, 0, -3)"), "i64[4]{1}");
  EXPECT_EQ(infer("aten.arange(u0 - 1)"), "?");
  EXPECT_EQ(infer("aten.full([2, s0], 1)"), "i64[2, s0]{s0, 1}");
  EXPECT_EQ(infer("aten.zeros([2])"), "?") << "torch's default dtype decides";
  EXPECT_EQ(infer("aten.zeros([2], dtype=f32)"), "f32[2]{1}");
  EXPECT_EQ(infer("aten.new_ones(%h, [2])"), "bf16[2]{1}");
  EXPECT_EQ(infer("aten.zeros_like(%y)"), "f32[2, 3, 4]{12, 1, 3}");
}

// Operators for which eager keeps channels last and FakeTensor does not, and operators that FakeTensor cannot run.
TEST(Infer, CopiesThatFakeTensorMakesOtherwise) {
  EXPECT_EQ(infer("aten.native_channel_shuffle(%img, 3)"), "f32[2, 3, 8, 8]{192, 1, 24, 3}");
  EXPECT_EQ(infer("aten.reflection_pad3d(%vol, [1, 2, 0, 0, 0, 0])"), "f32[2, 3, 4, 4, 7]{336, 1, 84, 21, 3}");
  EXPECT_EQ(infer("aten.replication_pad3d(%vol, [1, 2, 0, 0, 0, 0])"), "f32[2, 3, 4, 4, 7]{336, 1, 84, 21, 3}");
  EXPECT_EQ(infer("aten.reflection_pad2d_backward(%img, %img, [0, 0, 0, 0])"), "f32[2, 3, 8, 8]{192, 1, 24, 3}");
  EXPECT_EQ(infer("aten.replication_pad2d_backward(%img, %img, [0, 0, 0, 0])"), "f32[2, 3, 8, 8]{192, 1, 24, 3}");
  EXPECT_EQ(infer("aten.slice_inverse(%m, %t)"), "f32[5, 4]{1, 5}") << "the places of the second argument";
  EXPECT_EQ(infer("aten.slice_inverse(%h, %y, 0, 1)"), "bf16[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten.block_diag([%d, %m, %row])"), "f32[6, 10]{10, 1}");
}

TEST(Infer, PaddingNamesWhatDoesNotFit) {
  EXPECT_EQ(infer("aten.constant_pad_nd(%row, [1, 2, 3])"), "aten.constant_pad_nd: 3 pads for a tensor of rank 1");
  EXPECT_EQ(infer("aten.constant_pad_nd(%row, [-3, -2])"), "aten.constant_pad_nd: pads -3 and -2 for size 4");
  EXPECT_EQ(infer("aten.constant_pad_nd(%y, [u0, 0])"), "?") << "a copy without pads keeps the strides";
  EXPECT_EQ(infer("aten.constant_pad_nd(%x, [u0, 0])"), "f32[2, 3, u0 + 4]{3*u0 + 12, u0 + 4, 1}");
  EXPECT_EQ(infer("aten.reflection_pad1d(%row, [1, 1])"),
            "aten.reflection_pad1d: a tensor of rank 1; 2 and 3 are allowed");
  EXPECT_EQ(infer("aten.pad_sequence([%row, %u])"), "?");
  EXPECT_EQ(infer("aten.repeat(%x, [2])"), "aten.repeat: 1 repeats for a tensor of rank 3");
  EXPECT_EQ(infer("aten.rot90(%x, 1, [0, -3])"), "aten.rot90: the dimensions are the same");
  EXPECT_EQ(infer("aten.roll(%u, [1], [0])"), "f32[u0]{1}");
}

// Operators for which FakeTensor gives another type than eager, or none.
TEST(Infer, PoolingAsInEager) {
  EXPECT_EQ(infer("aten.max_pool2d_with_indices(%img, [3], [2], [1])"),
            "f32[2, 3, 4, 4]{48, 1, 12, 3}; i64[2, 3, 4, 4]{48, 1, 12, 3}");
  EXPECT_EQ(infer("aten.max_unpool2d(%img, %i, [16, 16])"), "f32[2, 3, 16, 16]{768, 1, 48, 3}");
  EXPECT_EQ(infer("aten.max_unpool3d(%img, %i, [9, 9, 9], [2, 2, 2], [0, 0, 0])"), "f32[2, 9, 9, 9]{729, 81, 9, 1}");
  EXPECT_EQ(infer("aten.channel_shuffle(%img, 3)"), "f32[2, 3, 8, 8]{192, 1, 24, 3}");
  EXPECT_EQ(infer("aten.pixel_unshuffle(%img, 2)"), "f32[2, 12, 4, 4]{192, 1, 48, 12}");
  EXPECT_EQ(infer("aten.avg_pool2d(%q, [2], [4], [1], true)"), "?") << "whether a window starts in the padding";
  EXPECT_EQ(infer("aten.avg_pool2d(%q, [2], [2])"), "f32[s0, floordiv(s1, 2), 32]{32*floordiv(s1, 2), 32, 1}");
  EXPECT_EQ(infer("aten.avg_pool2d(%x, [9])"), "aten.avg_pool2d: no window of 9 elements fits into size 3");
  EXPECT_EQ(infer("aten.avg_pool2d(%x, [1, 1, 1])"), "aten.avg_pool2d: kernel_size has 3 numbers, not 1 or 2");
  EXPECT_EQ(infer("aten.avg_pool2d(%m, [2])"), "aten.avg_pool2d: a tensor of rank 2, not 3 or 4");
  EXPECT_EQ(infer("aten._ctc_loss(%x, %i, [2, 2, 2], [1, 3, 2])"), "f32[3]{1}; f32[3, 2, 7]{14, 7, 1}");
  EXPECT_EQ(infer("aten.grid_sampler_2d_backward(%img, %img, %img, 0, 0, false, [false, true])"),
            "opaque \"\"; f32[2, 3, 8, 8]{192, 64, 8, 1}");
}

TEST(Infer, RandomNumbersAsInEager) {
  EXPECT_EQ(infer("aten.rand([2, s0], dtype=f32)"), "f32[2, s0]{s0, 1}");
  EXPECT_EQ(infer("aten.rand([2])"), "?") << "torch's default dtype decides";
  EXPECT_EQ(infer("aten.randint(9, [2])"), "i64[2]{1}");
  EXPECT_EQ(infer("aten.random.from(%y, 2, 9)"), "f32[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten.random_.from(%y, 2, 9)"), "f32[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten.uniform(%e)"), "f32[3, 4]{4, 1}");
  EXPECT_EQ(infer("aten.poisson(%y)"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.rrelu(%y)"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.normal.float_Tensor(0.0, %y)"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.normal.Tensor_Tensor(%h, %row)"), "bf16[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.dropout(%e, 0.5, false)"), "f32[3, 4]{0, 1}") << "the argument itself";
  EXPECT_EQ(infer("aten.dropout(%e, 0.5, true)"), "f32[3, 4]{4, 1}");
  EXPECT_EQ(infer("aten.native_dropout(%e, 0.5, false)"), "f32[3, 4]{4, 1}; bool[3, 4]{4, 1}");
  EXPECT_EQ(infer("aten.multinomial(%x, 2)"), "aten.multinomial: weights of rank 3, not 1 or 2");
}

TEST(Infer, Reshapes) {
  EXPECT_EQ(infer("aten.view(%x, [6, -1])"), "f32[6, 4]{4, 1} at 0");
  EXPECT_EQ(infer("aten.view(%y, [2, 3, 2, 2])"), "f32[2, 3, 2, 2]{12, 1, 6, 3} at 0");
  EXPECT_EQ(infer("aten.view(%y, [6, 4])"), "?") << "it would need a copy";
  EXPECT_EQ(infer("aten.view(%s, [-1, 8, 8])"), "f32[s0, 8, 8]{64, 8, 1} at 0");
  EXPECT_EQ(infer("aten.view(%q, [s0*s1, 64])"), "f32[s0*s1, 64]{64, 1} at 0");
  EXPECT_EQ(infer("aten.view(%zero, [4, 0])"), "f32[4, 0]{1, 1} at 0");
  EXPECT_EQ(infer("aten.view(%x, [5, 5])"), "aten.view: the sizes do not fit 24 elements");
  EXPECT_EQ(infer("aten.view(%x, [5, -1])"), "aten.view: the sizes do not fit 24 elements");
  EXPECT_EQ(infer("aten.unsqueeze(%y, -1)"), "f32[2, 3, 4, 1]{12, 1, 3, 1} at 0");
  EXPECT_EQ(infer("aten.unsqueeze(%y, 1)"), "f32[2, 1, 3, 4]{12, 3, 1, 3} at 0");
  EXPECT_EQ(infer("aten.squeeze.dim(%one, 1)"), "f32[2, 4]{4, 1} at 0");
  EXPECT_EQ(infer("aten.squeeze.dims(%one, [0, 1])"), "f32[2, 4]{4, 1} at 0");
  EXPECT_EQ(infer("aten.squeeze(%s)"), "f32[s0, 64]{64, 1} at 0");
  EXPECT_EQ(infer("aten.squeeze(%u)"), "?") << "u0 may be 1";
}

TEST(Infer, PermutationsAndExpansion) {
  EXPECT_EQ(infer("aten.t(%m)"), "f32[5, 4]{1, 5} at 0");
  EXPECT_EQ(infer("aten.t(%row)"), "f32[4]{1} at 0");
  EXPECT_EQ(infer("aten.t(%x)"), "aten.t: a tensor of rank 3; at most 2 is allowed");
  EXPECT_EQ(infer("aten.transpose.int(%x, 0, -1)"), "f32[4, 3, 2]{1, 4, 12} at 0");
  EXPECT_EQ(infer("aten.permute(%x, [2, 0, 1])"), "f32[4, 2, 3]{1, 12, 4} at 0");
  EXPECT_EQ(infer("aten.permute(%x, [2, 0, 2])"), "aten.permute: dimension 2 is named twice");
  EXPECT_EQ(infer("aten.movedim.intlist(%x, [0], [2])"), "f32[3, 4, 2]{4, 1, 12} at 0");
  EXPECT_EQ(infer("aten.expand(%col, [5, -1, 7])"), "f32[5, 3, 7]{0, 1, 0} at 0");
  EXPECT_EQ(infer("aten.expand(%row, [s0, 4])"), "f32[s0, 4]{0, 1} at 0");
  EXPECT_EQ(infer("aten.expand(%row, [5])"), "aten.expand: size 4 cannot become 5");
  EXPECT_EQ(infer("aten.diagonal(%m, 1)"), "f32[4]{6} at 1");
  EXPECT_EQ(infer("aten.unfold(%m, 1, 3, 2)"), "f32[4, 2, 3]{5, 2, 1} at 0");
}

TEST(Infer, Parts) {
  EXPECT_EQ(infer("aten.slice.Tensor(%x, 1, -2)"), "f32[2, 2, 4]{12, 4, 1} at 4");
  EXPECT_EQ(infer("aten.slice.Tensor(%x, 2, 1, 100, 2)"), "f32[2, 3, 2]{12, 4, 2} at 1");
  EXPECT_EQ(infer("aten.slice.Tensor(%x, 0, 5, 7)"), "f32[0, 3, 4]{12, 4, 1} at 24");
  EXPECT_EQ(infer("aten.slice.Tensor(%s, 0, 1)"), "f32[s0 - 1, 64]{64, 1} at 64");
  EXPECT_EQ(infer("aten.slice.Tensor(%s, 0, -1)"), "f32[1, 64]{64, 1} at 64*s0 - 64");
  EXPECT_EQ(infer("aten.slice.Tensor(%s, 0, 0, 5)"), "?") << "s0 may be smaller";
  EXPECT_EQ(infer("aten.select.int(%x, 1, -1)"), "f32[2, 4]{12, 1} at 8");
  EXPECT_EQ(infer("aten.select.int(%s, 0, -1)"), "f32[64]{1} at 64*s0 - 64");
  EXPECT_EQ(infer("aten.select.int(%x, 1, 3)"), "aten.select.int: index 3 is out of range for size 3");
  EXPECT_EQ(infer("aten.split.Tensor(%m, 3)"), "f32[3, 5]{5, 1} at 0; f32[1, 5]{5, 1} at 15");
  EXPECT_EQ(infer("aten.split_with_sizes(%s, [1, s0 - 1])"), "f32[1, 64]{64, 1} at 0; f32[s0 - 1, 64]{64, 1} at 64");
  EXPECT_EQ(infer("aten.split_with_sizes(%m, [1, 2])"), "aten.split_with_sizes: the sizes add up to 3, not to 4");
  EXPECT_EQ(infer("aten.unbind.int(%col)"), "f32[1]{1} at 0; f32[1]{1} at 1; f32[1]{1} at 2");
  EXPECT_EQ(infer("aten.narrow(%m, 1, -2, 2)"), "f32[4, 2]{5, 1} at 3");
  EXPECT_EQ(infer("aten.as_strided(%m, [2, 2], [1, 1])"), "f32[2, 2]{1, 1} at 0");
  EXPECT_EQ(infer("aten.as_strided(%m, [2, 2], [1, 1], 3)"), "?")
      << "where the storage of an input starts is not known";
}

TEST(Infer, OtherElementTypes) {
  EXPECT_EQ(infer("aten.view.dtype(%row, i32)"), "i32[4]{1} at 0");
  EXPECT_EQ(infer("aten.view.dtype(%m, u8)"), "u8[4, 20]{20, 1} at 0");
  EXPECT_EQ(infer("aten.view.dtype(%h, f32)"), "f32[2, 3, 2]{6, 2, 1} at 0");
  EXPECT_EQ(infer("aten.imag(%c)"), "f32[4]{2} at 1");
  EXPECT_EQ(infer("aten.view_as_real(%c)"), "f32[4, 2]{2, 1} at 0");
}

// From here on, tests are about operators for which FakeTensor gives no type, or another one than eager.
TEST(Infer, ElementwiseWithLayoutsOfTheirOwn) {
  EXPECT_EQ(infer("aten.pow.Scalar(2, %y)"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.masked_fill.Scalar(%row, %b, 0)"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.mvlgamma(%y, 2)"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.angle(%ct)"), "f32[3, 4]{4, 1}");
  EXPECT_EQ(infer("aten.abs(%ct)"), "f32[3, 4]{1, 3}");
  EXPECT_EQ(infer("aten.angle(%y)"), "f32[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten.angle(%i)"), "?") << "torch's default dtype decides";
  EXPECT_EQ(infer("aten.complex(%y, %row)"), "c64[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten.frexp.Tensor(%h)"), "bf16[2, 3, 4]{12, 4, 1}; i32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.isclose(%y, %x)"), "bool[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten.threshold_backward(%x, %y, 0)"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.native_dropout_backward(%y, %b, 2.0)"), "f32[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten.mul.Tensor(%q, %s1)"), "f32[s0, s1, 64]{64*s1, 64, 1}") << "64*s1 is more than 64";
}

TEST(Infer, GatesAndLosses) {
  EXPECT_EQ(infer("aten.log_sigmoid_forward(%y)"), "f32[2, 3, 4]{12, 4, 1}; f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.log_sigmoid_backward(%y, %x, %x)"), "f32[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten.glu(%y)"), "f32[2, 3, 2]{6, 1, 3}");
  EXPECT_EQ(infer("aten.glu(%q, 1)"), "f32[s0, floordiv(s1, 2), 64]{64*floordiv(s1, 2), 64, 1}");
  EXPECT_EQ(infer("aten.glu(%x, 1)"), "aten.glu: dimension 1 has the odd size 3");
  EXPECT_EQ(infer("aten.glu(%d)"), "aten.glu: a tensor without dimensions cannot be halved");
  EXPECT_EQ(infer("aten.glu_backward(%x, %y, 2)"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.mse_loss(%y, %h, 0)"), "f32[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten.huber_loss(%y, %x)"), "f32[]{}");
  EXPECT_EQ(infer("aten.mse_loss(%x, %x, 3)"),
            "aten.mse_loss: reduction 3; 0 (none), 1 (mean) and 2 (sum) are allowed");
  EXPECT_EQ(infer("aten.mse_loss_backward(%d, %y, %y, 1)"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.binary_cross_entropy(%y, %x, none, 0)"), "f32[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten.binary_cross_entropy_with_logits(%x, %y, none, none, 0)"), "f32[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten.binary_cross_entropy_backward(%x, %y, %x, none, 0)"), "f32[2, 3, 4]{12, 1, 3}");
}

TEST(Infer, CopiesWhereAViewIsImpossible) {
  EXPECT_EQ(infer("aten.reshape(%x, [6, -1])"), "f32[6, 4]{4, 1}");
  EXPECT_EQ(infer("aten.reshape(%y, [2, 3, 2, 2])"), "f32[2, 3, 2, 2]{12, 1, 6, 3}");
  EXPECT_EQ(infer("aten.reshape(%y, [6, 4])"), "f32[6, 4]{4, 1}");
  EXPECT_EQ(infer("aten.reshape(%q, [s0*s1, 64])"), "f32[s0*s1, 64]{64, 1}");
  EXPECT_EQ(infer("aten.reshape(%x, [5, 5])"), "aten.reshape: the sizes do not fit 24 elements");
  EXPECT_EQ(infer("aten.contiguous(%y)"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("aten.contiguous(%t)"), "f32[5, 4]{4, 1}");
  EXPECT_EQ(infer("aten.contiguous(%img, memory_format=memory_format.channels_last)"),
            "f32[2, 3, 8, 8]{192, 1, 24, 3}");
  EXPECT_EQ(infer("aten.contiguous(%s)"), "f32[s0, 64]{64, 1}");
  EXPECT_EQ(infer("aten._conj(%ct)"), "c64[3, 4]{1, 3}");
  EXPECT_EQ(infer("aten._neg_view(%e)"), "f32[3, 4]{0, 1}");
  EXPECT_EQ(infer("aten.resolve_conj(%ct)"), "c64[3, 4]{1, 3}");
  EXPECT_EQ(infer("aten.resolve_neg(%y)"), "f32[2, 3, 4]{12, 1, 3}");
  EXPECT_EQ(infer("aten._functional_assert_async.msg(%b, \"text\", %e)"), "f32[3, 4]{4, 1}");
  EXPECT_EQ(infer("npu.scatter_update(%x, %i, %x, 0)"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("npu.npu_scatter_nd_update(%h, %i, %h)"), "bf16[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("npu.npu_quant_scatter(%i, %i, %h, %h)"), "i64[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("npu.npu_scatter_nd_update_(%y, %i, %y)"), "f32[2, 3, 4]{12, 1, 3}");
}

TEST(Infer, NumbersMakeTensors) {
  EXPECT_EQ(infer("aten.empty_permuted([2, s0, 4], [2, 0, 1], dtype=f32)"), "f32[2, s0, 4]{s0, 1, 2*s0}");
  EXPECT_EQ(infer("aten.empty_permuted([2, 3], [0, 0], dtype=f32)"),
            "aten.empty_permuted: the layout does not name each of 2 dimensions once");
  EXPECT_EQ(infer("aten.eye(s0, dtype=i64)"), "i64[s0, s0]{s0, 1}");
  EXPECT_EQ(infer("aten.eye.m(2, 3)"), "?") << "torch's default dtype decides";
  EXPECT_EQ(infer("aten.linspace(0, 1, 5, dtype=f32)"), "f32[5]{1}");
  EXPECT_EQ(infer("aten.arange.start_step(1.5, -1, -0.5, dtype=f32)"), "f32[5]{1}");
  EXPECT_EQ(infer("aten.arange.start(1.5, 7.5, dtype=i64)"), "i64[6]{1}");
  EXPECT_EQ(infer("aten.unfold(%d, 0, 1, 1)"), "f64[1]{1} at 0");
  EXPECT_EQ(infer("aten.diagonal(%s)"), "f32[min(64, s0)]{65} at 0");
}

TEST(Infer, Collectives) {
  EXPECT_EQ(infer("npugraph.all_reduce([%y], \"sum\", \"g\", [0, 1])"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("npugraph.all_gather([%y], \"g\", [0, 1, 2])"), "f32[6, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("npugraph.reduce_scatter([%y], \"sum\", \"g\", [0, 1])"), "f32[1, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("npugraph.reduce_scatter([%m], \"sum\", \"g\", [0, 1, 2])"),
            "npugraph.reduce_scatter: size 4 of dimension 0 for 3 ranks");
  EXPECT_EQ(infer("npugraph.all_gather([%d], \"g\", [0, 1])"),
            "npugraph.all_gather: a tensor without dimensions has no parts");
  EXPECT_EQ(infer("npugraph.all_to_all(%s, [s1, 2], [1, s0 - 1], \"g\", [0, 1])"), "f32[s1 + 2, 64]{64, 1}");
  EXPECT_EQ(infer("npugraph.broadcast(%y, 0, \"g\", [0, 1])"), "f32[2, 3, 4]{12, 4, 1}");
  EXPECT_EQ(infer("npugraph.receive(%y, 0, 7, \"g\", [0, 1])"), "f32[2, 3, 4]{12, 4, 1}");
}

}  // namespace
}  // namespace npugraph::ops
