// SPDX-License-Identifier: Apache-2.0
#include "ops/table.h"

#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"

namespace npugraph::ops {
namespace {

using ir::Trait;

TEST(Table, RowsHaveTheNamesOfTheirSchemas) {
  std::set<std::string_view> seen;
  for (const std::string_view name : table_names()) {
    EXPECT_TRUE(seen.insert(name).second) << name << " has two rows";
    const ir::Op& op = require(name);
    EXPECT_EQ(op.name, name);
    EXPECT_EQ(op.schema.name, name);
    EXPECT_TRUE(op.in_table());
  }
  EXPECT_GT(seen.size(), 700u);
}

TEST(Table, TwinsTakeTheSameArgumentsAndWriteTheFirst) {
  int twins = 0;
  for (const std::string_view name : table_names()) {
    const ir::Op& op = require(name);
    if (op.inplace_twin.empty()) continue;
    const ir::Op& twin = require(op.inplace_twin);
    if (twin.is(Trait::kView)) continue;
    ++twins;
    ASSERT_EQ(twin.schema.args.size(), op.schema.args.size()) << name;
    for (size_t i = 0; i < op.schema.args.size(); ++i) {
      EXPECT_EQ(twin.schema.args[i].type, op.schema.args[i].type) << name;
      EXPECT_EQ(twin.schema.args[i].is_write, i == 0) << name;
    }
    EXPECT_TRUE(twin.is(Trait::kMutates)) << name;
    EXPECT_FALSE(op.is(Trait::kMutates)) << name;
    EXPECT_EQ(twin.is(Trait::kMayThrow), op.is(Trait::kMayThrow)) << name;
    EXPECT_EQ(twin.is(Trait::kElementwise), op.is(Trait::kElementwise)) << name;
    EXPECT_EQ(twin.is(Trait::kExact), op.is(Trait::kExact)) << name;
  }
  EXPECT_GT(twins, 100);
}

TEST(Table, ScattersHaveTheArgumentsOfTheirViewsAndASource) {
  for (const char* name : {"aten.slice_scatter", "aten.select_scatter", "aten.diagonal_scatter"}) {
    const ir::Op& op = require(name);
    const ir::Op& view = require(op.inplace_twin);
    EXPECT_TRUE(view.is(Trait::kView)) << name;
    std::vector<std::string> left;
    for (const ir::SchemaArg& arg : op.schema.args) left.push_back(arg.name);
    for (const ir::SchemaArg& arg : view.schema.args)
      EXPECT_EQ(std::erase(left, arg.name), 1u) << name << " " << arg.name;
    EXPECT_EQ(left, std::vector<std::string>{"src"}) << name;
  }
}

TEST(Table, ViewsReturnTheirFirstTensor) {
  for (const std::string_view name : table_names()) {
    const ir::Op& op = require(name);
    if (!op.is(Trait::kView)) continue;
    EXPECT_TRUE(op.schema.args.at(0).type == "Tensor") << name;
    EXPECT_FALSE(op.is(Trait::kMutates)) << name;
  }
}

TEST(Table, TraitsOfWellKnownOperators) {
  EXPECT_TRUE(require("aten.add.Tensor").is(Trait::kCommutative));
  EXPECT_FALSE(require("aten.sub.Tensor").is(Trait::kCommutative));
  EXPECT_FALSE(require("aten.mul.Tensor").is(Trait::kMayThrow));
  EXPECT_TRUE(require("aten.embedding").is(Trait::kMayThrow));
  EXPECT_TRUE(require("aten.native_dropout").is(Trait::kRandom));
  EXPECT_TRUE(require("aten._assert_async.msg").is(Trait::kSideEffect));
  EXPECT_TRUE(require("aten._unsafe_view").is(Trait::kView)) << "it shares memory, although its schema does not say so";
  EXPECT_FALSE(require("aten.contiguous").is(Trait::kView)) << "it may copy";
  EXPECT_FALSE(require("aten._conj").is(Trait::kView)) << "its values are not those in memory";
  EXPECT_EQ(require("aten.index_copy").inplace_twin, "aten.index_copy_");
  EXPECT_EQ(require("aten.copy").inplace_twin, "aten.copy_");
}

TEST(Table, FindsTheDefaultOverload) {
  EXPECT_EQ(registry().find("aten.t.default"), registry().find("aten.t"));
  EXPECT_EQ(registry().find("aten.no_such_operator"), nullptr);
  EXPECT_EQ(registry().find(""), nullptr);
  try {
    require("aten.no_such_operator");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "unknown operator 'aten.no_such_operator': it is neither in the operator table nor declared");
  }
}

TEST(Table, InternsOtherSchemasOnce) {
  auto& ops = registry();
  const ir::Op* op = ops.intern("table_test::f(Tensor(a!) x, int n=3) -> ()", static_cast<ir::Traits>(Trait::kRandom));
  EXPECT_EQ(op->name, "table_test.f");
  EXPECT_FALSE(op->in_table());
  EXPECT_TRUE(op->is(Trait::kMutates));
  EXPECT_TRUE(op->is(Trait::kRandom));
  EXPECT_TRUE(op->is(Trait::kMayThrow)) << "nobody said that it cannot";
  EXPECT_EQ(ops.intern(op->schema.text, op->traits), op);
  EXPECT_EQ(ops.find("table_test.f"), op);
  EXPECT_NE(ops.intern(op->schema.text, 0), op) << "other traits, another operator";
}

TEST(Table, ASchemaOfTheTableIsItsRow) {
  const ir::Op& relu = require("aten.relu");
  EXPECT_EQ(registry().intern(relu.schema.text, 0), &relu);
  const ir::Op* other = registry().intern("aten::relu(Tensor self, int n) -> Tensor", 0);
  EXPECT_NE(other, &relu);
  EXPECT_EQ(registry().find("aten.relu"), &relu);
}

TEST(Table, ManyThreadsFindTheSameRows) {
  std::vector<std::vector<const ir::Op*>> found(4);
  std::vector<std::thread> threads;
  for (auto& list : found) {
    threads.emplace_back([&list] {
      for (const char* name : {"aten.cumsum", "aten.cumprod", "aten.tril", "aten.triu", "aten.flip"})
        list.push_back(registry().find(name));
      list.push_back(registry().intern("table_test::g(Tensor x) -> Tensor", 0));
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& list : found) EXPECT_EQ(list, found.front());
}

}  // namespace
}  // namespace npugraph::ops
