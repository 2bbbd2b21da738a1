// SPDX-License-Identifier: Apache-2.0
// Rules of the table: `op(args)` over the values below -> type of the results, "?" where the rule cannot tell, or the error.
#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/text.h"
#include "ops/table.h"

namespace npugraph::ops {
namespace {

constexpr std::string_view kValues =
    "npugraph.graph 1 @test {\n"
    "symbol s0 : int [2, 1024]  symbol s1 : int [2, 64]  symbol u0 : int [0, inf]\n"
    "input %x : f32[2, 3, 4]  input %y : f32[2, 3, 4]{12, 1, 3}  input %row : f32[4]  input %col : f32[3, 1]\n"
    "input %s : f32[s0, 64]  input %q : f32[s0, s1, 64]  input %e : f32[3, 4]{0, 1}  input %zero : f32[0, 4]\n"
    "input %i : i64[2, 3, 4]  input %b : bool[2, 3, 4]  input %h : bf16[2, 3, 4]  input %d : f64[]  input %di : i64[]\n"
    "input %m : f32[4, 5]  input %n : f32[5, 6]  input %t : f32[5, 4]{1, 5}  input %bm : f32[2, 4, 7]\n"
    "input %img : f32[2, 3, 8, 8]{192, 1, 24, 3}  input %u : f32[u0]  input %c : c64[4]  input %one : f32[2, 1, 4]\n"
    "input %o : opaque \"sparse\"\n";

// Types, and offsets of views, of this call.
std::string infer(const std::string& call) {
  // An operator without checks on results takes any number of them.
  const std::string name = call.substr(0, call.find('('));
  const ir::Op& op = require(name);
  std::string results;
  std::string types;
  for (const auto& r : op.schema.returns) {
    if (!r.type.starts_with("Tensor")) continue;
    results += (results.empty() ? "%r" : ", %r") + std::to_string(results.size());
    types += types.empty() ? "f32[]" : ", f32[]";
  }
  const std::string text = std::string(kValues) + results + " : " + types + " = " + call + "\nreturn\n}";
  const ir::Graph graph = ir::parse(text, "test", registry());
  const ir::Node& node = graph.node(0);
  try {
    const auto inferred = infer_types(graph, op, node.args);
    if (!inferred) return "?";
    const auto views = infer_views(graph, op, node.args);
    std::string out;
    for (size_t i = 0; i < inferred->size(); ++i) {
      out += (i > 0 ? "; " : "") + ir::to_text((*inferred)[i]);
      if (views) out += " at " + (*views)[i].offset.str();
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
  EXPECT_EQ(infer("aten.cat([%img, %img])"), "?");  // channels last where all operands are
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

}  // namespace
}  // namespace npugraph::ops
