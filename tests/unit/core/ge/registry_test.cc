// SPDX-License-Identifier: Apache-2.0
#include "ge/ir/registry.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/error.h"
#include "ge/import/import.h"
#include "ge/import/rules.h"

namespace npugraph::ge {
namespace {

TEST(Registry, EveryLineIsAnOperator) {
  for (const std::string& name : operator_names()) {
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

TEST(Registry, InputsHaveKindsOfTypes) {
  const auto allows = [](const char* op, size_t input, std::vector<DType> allowed, std::vector<DType> refused) {
    const IrTensor& tensor = find_operator(op)->inputs[input];
    for (const DType dtype : allowed) EXPECT_TRUE(tensor.allows(dtype)) << op << " " << name_of(dtype);
    for (const DType dtype : refused) EXPECT_FALSE(tensor.allows(dtype)) << op << " " << name_of(dtype);
  };
  allows("Abs", 0, {DType::kF32, DType::kF64, DType::kBF16, DType::kI8}, {DType::kC64});
  allows("GatherV2", 1, {DType::kI64, DType::kI32}, {DType::kF32, DType::kF16});
  allows("GatherV2", 0, {DType::kF32, DType::kBool, DType::kC64}, {});
  allows("LogicalAnd", 0, {DType::kBool}, {DType::kF32, DType::kI64});
  allows("Greater", 0, {DType::kF16, DType::kU8}, {DType::kC64});
  allows("Reshape", 0, {DType::kF32, DType::kBool, DType::kI32, DType::kC64}, {});
}

TEST(Registry, UsersAddOperators) {
  constexpr const char* kLine = "RegistryTestAdd(x:{float}, y?:{float}) -> (z:{float}) [alpha:Float=1.0]";
  EXPECT_EQ(find_operator("RegistryTestAdd"), nullptr);
  add_operator(kLine);
  add_operator(kLine);
  ASSERT_NE(find_operator("RegistryTestAdd"), nullptr);
  EXPECT_EQ(find_operator("RegistryTestAdd")->attrs[0].default_text, "1.0");
  EXPECT_EQ(std::ranges::count(operator_names(), "RegistryTestAdd"), 1);
  EXPECT_THROW(add_operator("RegistryTestAdd(x:{float}) -> (z:{float})"), UserError);
  EXPECT_THROW(add_operator("Add(x:{float}) -> (z:{float})"), UserError);
  EXPECT_THROW(add_operator("no operator"), UserError);
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
