// SPDX-License-Identifier: Apache-2.0
#include "libraries/library.h"

#include <string>

#include <gtest/gtest.h>

#include "abi/kernel.h"
#include "base/error.h"
#include "libraries/parameters.h"
#include "ops/table.h"
#include "tensor/dtype.h"

namespace npugraph::libraries {
namespace {

std::string path(const std::string& name) { return std::string(TEST_LIBRARIES "/lib") + name + ".so"; }

std::string error_of(const std::string& file) {
  try {
    load(file);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Library, HasTheKernelsOfItsOperators) {
  const auto kernels = load(path("sample_kernels"));
  ASSERT_EQ(kernels.size(), 10u);
  EXPECT_EQ(kernels[0]->schema.name, "test_ops.scaled_add");
  EXPECT_EQ(kernels[0]->library, path("sample_kernels"));
  EXPECT_EQ(find("test_ops.scaled_add"), kernels[0]);
  EXPECT_EQ(find("test_ops.unknown"), nullptr);
  EXPECT_EQ(load(path("sample_kernels")), kernels);
}

TEST(Library, ThatCannotBeLoadedIsRefused) {
  EXPECT_NE(error_of("/nowhere/lib.so").find("'/nowhere/lib.so' cannot be loaded"), std::string::npos);
  EXPECT_NE(error_of(path("no_kernels")).find("does not export npugraph_library"), std::string::npos);
  EXPECT_NE(error_of(path("old_kernels")).find("build it again"), std::string::npos);
}

TEST(Library, WhoseKernelDoesNotFitItsSchemaIsRefused) {
  const std::string error = error_of(path("misfit_kernels"));
  EXPECT_NE(error.find("test_ops::misfit(Tensor(a!) x, float factor) -> ()"), std::string::npos) << error;
  EXPECT_NE(error.find("its parameters are (Tensor, int, result), the schema needs (Tensor!, float)"),
            std::string::npos)
      << error;
}

TEST(Library, CannotReplaceTheKernelOfAnother) {
  load(path("sample_kernels"));
  const std::string error = error_of(path("taken_kernels"));
  EXPECT_NE(error.find("both have a kernel of test_ops.strides"), std::string::npos) << error;
  EXPECT_EQ(find("test_ops.strides")->library, path("sample_kernels"));
}

TEST(Library, CannotReplaceAnOperatorOfTheTable) {
  EXPECT_NE(error_of(path("own_kernels")).find("npugraph has this operator itself"), std::string::npos);
  EXPECT_EQ(find("aten.relu"), nullptr);
}

TEST(Library, HasItsOperatorsUnderTheirNamesInAscendIr) {
  EXPECT_EQ(ir_name("my_ops.scaled_add"), "ScaledAdd");
  EXPECT_EQ(ir_name("my_ops.scaled_add_.out"), "ScaledAdd");
  EXPECT_EQ(ir_name("my_ops.scaled_add_functional"), "ScaledAdd");
  EXPECT_EQ(ir_name("my_ops._mla_v2"), "MlaV2");
  load(path("sample_kernels"));
  ASSERT_EQ(find_ir("ScaledAdd").size(), 1u);
  EXPECT_EQ(find_ir("ScaledAdd")[0]->schema.name, "test_ops.scaled_add");
  EXPECT_TRUE(find_ir("scaled_add").empty());
}

std::string parameters(const std::string& schema) {
  std::string text;
  for (const std::string& word : parameters_of(ops::parse_schema(schema))) text += word + " ";
  return text;
}

TEST(Parameters, FollowFromTheSchema) {
  EXPECT_EQ(parameters("a::b(Tensor x, Tensor? y, Tensor[] z, Tensor(a!) out) -> (Tensor, Tensor)"),
            "Tensor Tensor? Tensor[] Tensor! result result ");
  EXPECT_EQ(parameters("a::b(SymInt i, int[2] s, SymInt[]? t, Scalar f, float[] g, str s, ScalarType? d) -> ()"),
            "int int[] int[]? float float[] str ScalarType? ");
  EXPECT_EQ(parameters("a::b(Tensor(a!) x) -> Tensor(a!)"), "Tensor! ");
}

TEST(Parameters, OfOtherTypesAreRefused) {
  EXPECT_THROW(parameters("a::b(Device device) -> Tensor"), UserError);
  EXPECT_THROW(parameters("a::b(Tensor x) -> Tensor[]"), UserError);
  EXPECT_THROW(parameters("a::b(Tensor(a) x) -> Tensor(a)"), UserError);
}

TEST(Schemas, AreTheSameWhateverTheirDefaultsAre) {
  const auto parse = [](const char* text) { return ops::parse_schema(text); };
  const ir::Schema schema = parse("a::b(Tensor(a!) x, float scale) -> Tensor");
  EXPECT_TRUE(same(schema, parse("a::b(Tensor(b!) x, *, float scale=1.0) -> (Tensor y)")));
  EXPECT_FALSE(same(schema, parse("a::b(Tensor x, float scale) -> Tensor")));
  EXPECT_FALSE(same(schema, parse("a::b(Tensor(a!) x, float factor) -> Tensor")));
  EXPECT_FALSE(same(schema, parse("a::b(Tensor(a!) x, float scale) -> ()")));
}

// The header for users states the sizes of elements for itself, because it includes nothing of this tree.
TEST(KernelHeader, KnowsTheSizesOfAllElements) {
  for (int32_t dtype = NG_BOOL; dtype <= NG_F8E8M0FNU; ++dtype)
    EXPECT_EQ(kernel::size_of(dtype), size_of(static_cast<DType>(dtype))) << kernel::name_of(dtype);
}

}  // namespace
}  // namespace npugraph::libraries
