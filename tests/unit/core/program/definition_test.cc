// SPDX-License-Identifier: Apache-2.0
#include "program/definition.h"

#include <string>

#include <gtest/gtest.h>

#include "base/error.h"

namespace npugraph::program {
namespace {

Task task_with(std::vector<Attr> args) {
  return {.kind = TaskKind::kKernel,
          .name = "kernel.test",
          .operands = {{.access = Access::kRead, .dtype = DType::kBF16, .sizes = {{2}, {3}}},
                       {.access = Access::kReadWrite, .dtype = DType::kI64, .sizes = {}}},
          .args = std::move(args)};
}

TEST(Definition, OperandsHaveTypeAccessAndRank) {
  const Task task = task_with({});
  const Definition definition(task);
  const ng_definition& made = definition.get();
  EXPECT_STREQ(made.name, "kernel.test");
  EXPECT_EQ(made.abi_version, NG_TASK_ABI_VERSION);
  ASSERT_EQ(made.num_operands, 2u);
  EXPECT_EQ(made.operands[0].dtype, NG_BF16);
  EXPECT_EQ(made.operands[0].access, NG_READ);
  EXPECT_EQ(made.operands[0].rank, 2);
  EXPECT_EQ(made.operands[1].access, NG_READ_WRITE);
  EXPECT_EQ(made.operands[1].rank, 0);
}

TEST(Definition, ConstantsAreValues) {
  const Task task =
      task_with({TensorRef{1}, None{}, Expr::constant(Scalar::of_int(-7)), Expr::constant(Scalar::of_float(0.5)),
                 Expr::constant(Scalar::of_bool(true)), std::string("mean"), DType::kF16, MemoryFormat::kChannelsLast});
  const Definition definition(task);
  ASSERT_EQ(definition.get().num_attributes, 8u);
  const auto at = [&](int i) -> const ng_value& {
    EXPECT_EQ(definition.get().attributes[i].count, 1u);
    EXPECT_EQ(definition.get().attributes[i].is_list, 0u);
    return definition.get().attributes[i].values[0];
  };
  EXPECT_EQ(at(0).kind, NG_VALUE_OPERAND);
  EXPECT_EQ(at(0).number.i, 1);
  EXPECT_EQ(at(1).kind, NG_VALUE_NONE);
  EXPECT_EQ(at(2).kind, NG_VALUE_INT);
  EXPECT_EQ(at(2).number.i, -7);
  EXPECT_EQ(at(2).scalar, -1);
  EXPECT_EQ(at(3).kind, NG_VALUE_FLOAT);
  EXPECT_EQ(at(3).number.f, 0.5);
  EXPECT_EQ(at(4).kind, NG_VALUE_BOOL);
  EXPECT_EQ(at(4).number.i, 1);
  EXPECT_EQ(at(5).kind, NG_VALUE_TEXT);
  EXPECT_STREQ(at(5).text, "mean");
  EXPECT_EQ(at(6).kind, NG_VALUE_DTYPE);
  EXPECT_EQ(at(6).number.i, NG_F16);
  EXPECT_EQ(at(7).kind, NG_VALUE_OTHER);
}

// Their indices count in the order of ng_call::scalars, inside and outside of lists.
TEST(Definition, SymbolsAreScalarsOfTheCall) {
  const Expr rows = Expr::symbol("s0"), scale = Expr::symbol("f0", ScalarKind::kFloat);
  const Task task = task_with({std::vector<Expr>{rows, Expr::constant(Scalar::of_int(4)), rows}, scale});
  const Definition definition(task);
  const ng_attribute& list = definition.get().attributes[0];
  ASSERT_EQ(list.count, 3u);
  EXPECT_EQ(list.is_list, 1u);
  EXPECT_EQ(list.values[0].scalar, 0);
  EXPECT_EQ(list.values[1].scalar, -1);
  EXPECT_EQ(list.values[1].number.i, 4);
  EXPECT_EQ(list.values[2].scalar, 1);
  const ng_value& last = definition.get().attributes[1].values[0];
  EXPECT_EQ(last.kind, NG_VALUE_FLOAT);
  EXPECT_EQ(last.scalar, 2);
}

TEST(Definition, ListsMayBeEmptyAndHaveHoles) {
  const Task task = task_with({std::vector<TensorRef>{}, std::vector<TensorRef>{{0}, {}}});
  const Definition definition(task);
  EXPECT_EQ(definition.get().attributes[0].is_list, 1u);
  EXPECT_EQ(definition.get().attributes[0].count, 0u);
  EXPECT_EQ(definition.get().attributes[1].values[0].kind, NG_VALUE_OPERAND);
  EXPECT_EQ(definition.get().attributes[1].values[1].kind, NG_VALUE_NONE);
}

TEST(MakeTask, RefusalsAreErrorsWithTheirMessage) {
  const ng_make refuses = [](const ng_definition* definition, ng_task*, void (*refuse)(void*, const char*),
                             void* reason) {
    refuse(reason, (std::string(definition->name) + ": takes no i64").c_str());
    return NG_ERROR;
  };
  try {
    make_task(refuses, task_with({}));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "kernel.test: takes no i64");
  }
}

}  // namespace
}  // namespace npugraph::program
