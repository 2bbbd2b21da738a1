// SPDX-License-Identifier: Apache-2.0
// Tensors and shapes of the API.
#include <cstdint>
#include <vector>

#include "ge/api/api_testing.h"

namespace npugraph::ge {
namespace {

TEST(ShapeOfTheApi, CountsElements) {
  EXPECT_EQ(::ge::Shape().GetShapeSize(), 1);
  EXPECT_EQ(::ge::Shape({3, 4}).GetShapeSize(), 12);
  EXPECT_EQ(::ge::Shape({-1, 4}).GetShapeSize(), -1);
  EXPECT_EQ(::ge::Shape({INT64_MAX, 4}).GetShapeSize(), -1);
  EXPECT_EQ(::ge::Shape({INT64_MAX, 4, 0}).GetShapeSize(), 0);
}

TEST(TensorOfTheApi, RefusesDataThatIsMissing) {
  ::ge::Tensor x = tensor({2}, {1, 2});
  EXPECT_FAILS(x.SetData(nullptr, 8), PARAM_INVALID, "Tensor::SetData: the address of 8 bytes of data is null");
  EXPECT_FAILS(x.SetData(nullptr, 8, {}), PARAM_INVALID, "the address of 8 bytes of data is null");
  const uint8_t byte = 0;
  EXPECT_FAILS(x.SetData(&byte, SIZE_MAX), FAILED, "not enough memory");
  EXPECT_EQ(floats(x), (std::vector<float>{1, 2}));
}

TEST(TensorOfTheApi, IsClonedWithItsData) {
  const ::ge::Tensor x = tensor({2}, {1, 2});
  const ::ge::Tensor clone = x.Clone();
  EXPECT_EQ(floats(clone), floats(x));
  EXPECT_NE(clone.GetData(), x.GetData());
  EXPECT_EQ(clone.GetTensorDesc().GetShape(), x.GetTensorDesc().GetShape());
  EXPECT_EQ(::ge::Tensor(x.GetTensorDesc()).Clone().GetData(), nullptr);
  EXPECT_NE(tensor({0}, {1}).GetData(), nullptr);
}

}  // namespace
}  // namespace npugraph::ge
