// SPDX-License-Identifier: Apache-2.0
#include "ge/ir/registry.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ge/import/import.h"
#include "ge/import/rules.h"

namespace npugraph::ge {
namespace {

TEST(Registry, EveryLineIsAnOperator) {
  for (const std::string_view name : operator_names()) {
    const IrOperator* op = find_operator(name);
    ASSERT_NE(op, nullptr) << name;
    EXPECT_EQ(op->name, name);
  }
  EXPECT_EQ(find_operator("NoSuchOperator"), nullptr);
}

TEST(Registry, InputsHaveArityAndAttributesHaveDefaults) {
  const IrOperator& conv = *find_operator("Conv2D");
  ASSERT_EQ(conv.inputs.size(), 4u);
  EXPECT_EQ(conv.inputs[1].name, "filter");
  EXPECT_EQ(conv.inputs[1].arity, Arity::kRequired);
  EXPECT_EQ(conv.inputs[2].name, "bias");
  EXPECT_EQ(conv.inputs[2].arity, Arity::kOptional);
  EXPECT_EQ(conv.attrs[0].name, "strides");
  EXPECT_TRUE(conv.attrs[0].required);
  EXPECT_EQ(conv.attrs[0].kind, IrAttrKind::kListInt);
  EXPECT_EQ(conv.attrs[2].default_text, "{1,1,1,1}");
  EXPECT_EQ(find_operator("ConcatV2")->inputs[0].arity, Arity::kDynamic);
}

TEST(Registry, EveryRuleIsOfAnOperator) {
  for (const std::string_view type : ruled_types()) EXPECT_NE(find_operator(type), nullptr) << type;
}

TEST(Registry, AGraphMayHaveWhatTheImportReads) {
  const auto types = imported_types();
  for (const char* type : {"Data", "Const", "NetOutput", "ReduceProd", "Add", "MatMulV2"})
    EXPECT_TRUE(types.contains(type)) << type;
  for (const char* type : {"Erfinv", "NoSuchType"}) EXPECT_FALSE(types.contains(type)) << type;
}

TEST(Registry, MalformedTextIsAnError) {
  for (const char* line : {"", "Add", "Add(x", "Add(x:float) (y:float)", "(x:float) -> (y:float)",
                           "Add(x) -> (y:float)", "Add(x:float) -> (y:float) [a:Sometimes=1]"})
    EXPECT_THROW(parse_operator(line), UserError) << line;
}

}  // namespace
}  // namespace npugraph::ge
