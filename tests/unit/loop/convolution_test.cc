// SPDX-License-Identifier: Apache-2.0
#include "loop/convolution.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace npugraph::loop {
namespace {

TEST(ConvolutionText, RoundTrips) {
  for (const Convolution& convolution :
       {Convolution{.stride = {1}, .padding = {0}, .dilation = {1}},
        Convolution{.bias = true, .groups = 4, .stride = {2, 1}, .padding = {3, 0}, .dilation = {1, 2}}})
    EXPECT_EQ(parse_convolution(print(convolution), "test"), convolution);
  EXPECT_EQ(print({.bias = true, .groups = 2, .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}}),
            "npugraph.convolution 1 bias groups 2 stride 2 2 padding 1 1 dilation 1 1");
}

TEST(ConvolutionText, RefusesOtherTexts) {
  for (const char* text :
       {"", "npugraph.attention 1", "npugraph.convolution 1", "npugraph.convolution 1 stride 1 padding 0 dilation",
        "npugraph.convolution 1 stride 0 padding 0 dilation 1", "npugraph.convolution 1 stride 1 padding -1 dilation 1",
        "npugraph.convolution 1 stride 1 1 padding 0 dilation 1 1", "npugraph.convolution 1 groups stride 1",
        "npugraph.convolution 1 groups 0 stride 1 padding 0 dilation 1", "npugraph.convolution 1 kernel 3",
        "npugraph.convolution 1 stride 1 1 1 padding 0 0 0 dilation 1 1 1"})
    EXPECT_THROW(parse_convolution(text, "test"), UserError) << text;
}

}  // namespace
}  // namespace npugraph::loop
