// SPDX-License-Identifier: Apache-2.0
#include "loop/specialise.h"

#include <array>

#include <gtest/gtest.h>

#include "loop/run_kernel.h"
#include "loop/text.h"

namespace npugraph::loop {
namespace {

constexpr std::string_view kScale = R"(npugraph.loop 1 @scale {
  scalar n : int
  scalar f : float
  in x : f32
  out y : f32
  local t : f32[n]
  parallel for i < n grain max(1, floordiv(1024, n)) {
    vector for j < n {
      %0 : f32 = load x[i*n + j]
      store t[j] = %0
    }
    vector for k < n {
      %1 : f32 = load t[k]
      store y[i*n + k] = %1
    }
  }
}
)";

TEST(LoopSpecialise, SizesBecomeConstants) {
  const std::array<std::optional<int64_t>, 2> values = {64, std::nullopt};
  const Kernel made = specialised(parse(kScale, "test"), values);
  const std::string text = print(made);
  EXPECT_NE(text.find("scalar n : int"), std::string::npos) << text;
  EXPECT_NE(text.find("f32[64]"), std::string::npos) << text;
  EXPECT_NE(text.find("i < 64 grain 16"), std::string::npos) << text;
  EXPECT_NE(text.find("x[64*i + j]"), std::string::npos) << text;
  EXPECT_EQ(made.scalars.size(), 2u);
}

TEST(LoopSpecialise, WithoutValuesNothingChanges) {
  const std::array<std::optional<int64_t>, 2> none = {};
  const std::array<std::optional<int64_t>, 2> of_float = {std::nullopt, 3};
  const std::string text = print(specialised(parse(kScale, "test"), none));
  EXPECT_EQ(text, print(specialised(parse(kScale, "test"), of_float)));
  EXPECT_NE(text.find("i < n"), std::string::npos) << text;
}

TEST(LoopSpecialise, ComputesTheSame) {
  const Kernel kernel = parse(kScale, "test");
  for (const int64_t n : {0, 1, 2, 7, 16}) {
    std::vector<float> x(n * n), y(n * n), z(n * n);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    const std::vector<Scalar> scalars = {Scalar::of_int(n), Scalar::of_float(0)};
    const std::array<std::optional<int64_t>, 2> values = {n, std::nullopt};
    EXPECT_EQ(testing::run(kScale, {testing::host(x), testing::host(y)}, scalars), "");
    EXPECT_EQ(testing::run(print(specialised(kernel, values)), {testing::host(x), testing::host(z)}, scalars), "");
    EXPECT_EQ(y, x);
    EXPECT_EQ(z, x);
  }
}

}  // namespace
}  // namespace npugraph::loop
