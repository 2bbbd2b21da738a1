// SPDX-License-Identifier: Apache-2.0
#include "libraries/launch.h"

#include <string>

#include <gtest/gtest.h>

#include "base/error.h"

namespace npugraph::libraries {
namespace {

class Launch : public testing::Test {
 protected:
  void SetUp() override { load(TEST_LIBRARIES "/libsample_kernels.so"); }
};

std::string found(const std::string& name, size_t count) {
  try {
    return find_launched(name, count).schema.name;
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST_F(Launch, HasTheResultsAsWrittenArguments) {
  EXPECT_EQ(find("test_ops.scaled_add")->launch->schema.text,
            "npugraph_kernels::test_ops__scaled_add(Tensor x, Tensor y, float scale, Tensor(result0!) result0) -> ()");
  EXPECT_EQ(find("test_ops.scale_")->launch->schema.text,
            "npugraph_kernels::test_ops__scale_(Tensor(a!) x, Scalar factor) -> ()");
  EXPECT_EQ(find("npugraph_kernels.test_ops__scale_"), find("test_ops.scale_")->launch.get());
}

TEST_F(Launch, IsFoundByTheNameOfItsFunctionOrOfItsOperator) {
  EXPECT_EQ(found("aclnnScaledAdd", 4), "test_ops.scaled_add");
  EXPECT_EQ(found("test_ops::scaled_add", 4), "test_ops.scaled_add");
  EXPECT_EQ(found("aclnnScale", 2), "test_ops.scale_");
  EXPECT_EQ(found("aclnnInplaceScale", 2), "test_ops.scale_");
}

TEST_F(Launch, OfNoKernelSaysWhatIsLoaded) {
  EXPECT_NE(found("aclnnFusedAdd", 2)
                .find("aclnnFusedAdd is the kernel of an operator NAMESPACE::fused_add, and no "
                      "library that is loaded has it; npugraph.load_library(PATH)"),
            std::string::npos);
  EXPECT_NE(found("my_ops::add", 2).find("loaded are those of test_ops.scaled_add, test_ops.scale_"),
            std::string::npos);
  EXPECT_NE(found("aclnnInplaceScaledAdd", 4).find("NAMESPACE::scaled_add"), std::string::npos);
}

TEST_F(Launch, WithTheWrongNumberOfArgumentsSaysWhatTheKernelTakes) {
  EXPECT_NE(found("aclnnScaledAdd", 3)
                .find("was given 3 arguments; the kernel of test_ops::scaled_add(Tensor x, "
                      "Tensor y, float scale) -> Tensor takes 4"),
            std::string::npos);
}

TEST_F(Launch, ThatMeansSeveralKernelsIsRefused) {
  load(TEST_LIBRARIES "/libtwin_kernels.so");
  EXPECT_NE(found("aclnnReversed", 2).find("each of test_ops.reversed, twin_ops.reversed"), std::string::npos);
  EXPECT_EQ(found("twin_ops::reversed", 2), "twin_ops.reversed");
  EXPECT_EQ(found("aclnnReversed", 1), "twin_ops.reversed_");
}

TEST_F(Launch, MayHaveAnotherOperator) {
  const Kernel& kernel = find_launched("aclnnScaledAdd", 4);
  const std::string text = "alias_ops::sum(Tensor a, Tensor b, *, float factor=1.0) -> Tensor";
  const Kernel* alias = add_alias(text, kernel);
  EXPECT_EQ(find("alias_ops.sum"), alias);
  EXPECT_EQ(add_alias(text, kernel), alias);
  EXPECT_EQ(find_ir("Sum").size(), 0u);
  EXPECT_NE(add_alias("alias_ops::sum.out(Tensor a, Tensor b, float factor, *, Tensor(a!) out) -> Tensor(a!)", kernel),
            nullptr);
  EXPECT_THROW(add_alias("alias_ops::sum(Tensor c, Tensor b, *, float factor=1.0) -> Tensor", kernel), UserError);
  EXPECT_THROW(add_alias("alias_ops::other(Tensor a, Tensor b, int factor) -> Tensor", kernel), UserError);
  EXPECT_THROW(add_alias("aten::relu(Tensor self) -> Tensor", find_launched("test_ops::reversed", 2)), UserError);
}

}  // namespace
}  // namespace npugraph::libraries
