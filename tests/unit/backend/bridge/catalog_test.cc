// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/dispatch/Dispatcher.h>

#include "backend/bridge/bridge_test_util.h"
#include "base/error.h"
#include "ops/table.h"

namespace npugraph::bridge {
namespace {

ir::Op op(const std::string& name) {
  ir::Op op;
  op.name = name;
  return op;
}

TEST(Catalog, OutVariantsAreThoseThatWriteIntoTheMemory) {
  const auto& catalog = aten_catalog();
  const auto mm = catalog.out_variant(op("aten.mm.default"));
  ASSERT_TRUE(mm);
  EXPECT_EQ(mm->name, "aten.mm.out");
  EXPECT_EQ(mm->schema, "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)");
  EXPECT_EQ(mm->out_args, std::vector<int32_t>{2});
  EXPECT_EQ(catalog.out_variant(op("aten.add.Tensor"))->name, "aten.add.out");
  EXPECT_EQ(catalog.out_variant(op("aten.max.dim"))->name, "aten.max.dim_max");
  EXPECT_EQ(catalog.out_variant(op("aten.max.dim"))->out_args, (std::vector<int32_t>{3, 4}));
  // The out variant is composite: it computes and then copies.
  EXPECT_FALSE(catalog.out_variant(op("aten.native_layer_norm")));
  EXPECT_FALSE(catalog.out_variant(op("aten.convolution")));
  // The out variant takes any result for a row-major one.
  EXPECT_FALSE(catalog.out_variant(op("aten.tril"))->any_strides);
  EXPECT_TRUE(mm->any_strides);
  // The size of the result depends on the data.
  EXPECT_FALSE(catalog.out_variant(op("aten.nonzero")));
  EXPECT_FALSE(catalog.out_variant(op("aten.masked_select")));
  // The out variant has a kernel, but this kernel resizes the result in between.
  EXPECT_FALSE(catalog.out_variant(op("aten.mse_loss")));
  // Operators that are not functional, or not known.
  EXPECT_FALSE(catalog.out_variant(op("aten.add_.Tensor")));
  EXPECT_FALSE(catalog.out_variant(op("aten.t")));
  EXPECT_FALSE(catalog.out_variant(op("my_ns.missing")));
}

TEST(Catalog, HundredsOfOperatorsHaveOne) {
  int variants = 0;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.starts_with("aten::") && aten_catalog().out_variant(op(fx_name_of(name)))) ++variants;
  }
  EXPECT_GT(variants, 300);
}

TEST(Catalog, RowsSayWhichOperatorsAreNotTorchsOwn) {
  for (const std::string_view name : ops::table_names()) {
    const bool foreign = ops::require(name).is(ir::Trait::kForeign);
    EXPECT_EQ(foreign, is_foreign(name.substr(0, name.find('.')))) << name;
  }
}

TEST(Catalog, WhatCanRun) {
  const auto& catalog = aten_catalog();
  EXPECT_TRUE(catalog.can_run(op("aten.mm")));
  EXPECT_TRUE(catalog.can_run(op("aten.index.Tensor")));
  EXPECT_TRUE(catalog.can_run(op("aten.bernoulli.p")));
  EXPECT_FALSE(catalog.can_run(op("my_ns.missing")));
  EXPECT_FALSE(catalog.can_run(op("nonsense")));
}

// %y = op(%c) over the constant 0, 1, ..., 5.
ir::Graph over_constant(const ir::Op& row, std::vector<Attr> args, std::vector<Expr> sizes, std::vector<Expr> strides) {
  ir::Graph graph;
  const ir::ValueId c = graph.add_value(ir::TensorType{DType::kF32, {2, 3}, {3, 1}, {}}, "c");
  graph.constants.push_back(
      {c, std::make_shared<ir::ConstantData>(constant_of(at::arange(6, at::kFloat).view({2, 3})))});
  args.insert(args.begin(), TensorRef{c});
  graph.append({.op = &row, .args = std::move(args)},
               {ir::TensorType{DType::kF32, std::move(sizes), std::move(strides), {}}}, "y");
  return graph;
}

TEST(ConstantEvaluator, KeepsMemoryAliveAndGivesTheDeclaredStrides) {
  const ir::Op permute = op("aten.permute");
  std::shared_ptr<const ir::ConstantData> folded;
  {
    const ir::Graph graph = over_constant(permute, {std::vector<Expr>{1, 0}}, {3, 2}, {1, 3});
    const auto results = constant_evaluator()(graph, graph.order()[0]);
    ASSERT_EQ(results.size(), 1u);
    folded = results[0];
  }
  EXPECT_EQ(folded->bytes, 24);
  const at::Tensor y = tensor_over(folded->data, {3, 2}, {1, 3}, DType::kF32, folded->owner);
  EXPECT_TRUE(at::equal(y, at::arange(6, at::kFloat).view({2, 3}).t()));
}

TEST(ConstantEvaluator, LeavesAloneWhatItCannotFold) {
  const ir::Op add = op("aten.add.Scalar");
  const Expr symbol = Expr::symbol("s0");
  const ir::Graph symbolic = over_constant(add, {symbol, Expr(1)}, {2, 3}, {3, 1});
  EXPECT_TRUE(constant_evaluator()(symbolic, symbolic.order()[0]).empty());
  const ir::Op squeeze = op("aten.select.int");
  const ir::Graph raising = over_constant(squeeze, {Expr(0), Expr(9)}, {3}, {1});
  EXPECT_TRUE(constant_evaluator()(raising, raising.order()[0]).empty());
}

}  // namespace
}  // namespace npugraph::bridge
