// SPDX-License-Identifier: Apache-2.0
#include "loop/task_parameters.h"

#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"

namespace npugraph::loop {

namespace {

TEST(AttentionText, RoundTrips) {
  for (const Attention& attention :
       {Attention{}, Attention{.after = 0}, Attention{.before = -3, .position = AttentionPosition::kEnd},
        Attention{.before = 1, .after = 2, .position = AttentionPosition::kGiven, .empty_is_nan = true},
        Attention{.mask = true, .logsumexp = true},
        Attention{.after = 0, .mask = true, .logsumexp = true, .scale = 1.0 / 3}, Attention{.scale = -1e-300}})
    EXPECT_EQ(parse_attention(print(attention), "test"), attention);
  EXPECT_EQ(print({.after = 0, .scale = 0.125}), "npugraph.attention 1 after 0 scale 0.125");
  EXPECT_EQ(print({.before = 7, .after = 0, .position = AttentionPosition::kGiven, .empty_is_nan = true}),
            "npugraph.attention 1 after 0 before 7 at given nan");
}

TEST(AttentionText, RefusesOtherTexts) {
  for (const char* text : {"", "npugraph.loop 1", "npugraph.attention 1 window", "npugraph.attention 1 scale",
                           "npugraph.attention 1 scale 0.1x", "npugraph.attention 12", "npugraph.attention 1 after",
                           "npugraph.attention 1 before 1.5", "npugraph.attention 1 at start"})
    EXPECT_THROW(parse_attention(text, "test"), UserError) << text;
}

TEST(ConvolutionText, RoundTrips) {
  for (const Convolution& convolution :
       {Convolution{.stride = {1}, .padding = {0}, .dilation = {1}},
        Convolution{.channels_last = true, .groups = 3, .stride = {1, 2}, .padding = {0, 0}, .dilation = {1, 1}},
        Convolution{.bias = true, .groups = 4, .stride = {2, 1}, .padding = {3, 0}, .dilation = {1, 2}}})
    EXPECT_EQ(parse_convolution(print(convolution), "test"), convolution);
  EXPECT_EQ(print({.bias = true, .groups = 2, .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}}),
            "npugraph.convolution 1 bias groups 2 stride 2 2 padding 1 1 dilation 1 1");
}

TEST(Convolution, IsDirectWhereGroupsHaveFewChannelsAndAWindowFits) {
  const auto is_direct_of = [](int64_t groups, std::vector<int64_t> stride, std::vector<int64_t> dilation,
                               std::vector<int64_t> weights) {
    const Convolution convolution{.groups = groups, .stride = stride, .padding = stride, .dilation = dilation};
    return is_direct(convolution, weights);
  };
  EXPECT_TRUE(is_direct_of(96, {1, 1}, {1, 1}, {96, 1, 7, 7}));
  EXPECT_TRUE(is_direct_of(1, {2}, {1}, {4, 3, 9}));
  EXPECT_TRUE(is_direct_of(32, {2, 2}, {1, 1}, {128, 4, 3, 3}));
  EXPECT_FALSE(is_direct_of(1, {1, 1}, {1, 1}, {64, 3, 7, 7}));   // computed as a product
  EXPECT_FALSE(is_direct_of(4, {1, 1}, {1, 1}, {4, 1, 33, 33}));  // too many taps
  EXPECT_FALSE(is_direct_of(4, {1, 1}, {50, 90}, {4, 1, 3, 3}));  // too large a window
  EXPECT_FALSE(is_direct_of(1, {1, 1}, {1, 1}, {4, 512, 3, 3}));  // too large a window, and too many taps
}

TEST(Convolution, WithChannelsLastIsDirectWhereItIsDepthwise) {
  const auto is_direct_of = [](int64_t groups, int64_t dilation, std::vector<int64_t> weights) {
    const Convolution convolution{
        .channels_last = true, .groups = groups, .stride = {1, 1}, .padding = {0, 0}, .dilation = {dilation, dilation}};
    return is_direct(convolution, weights);
  };
  EXPECT_TRUE(is_direct_of(96, 1, {96, 1, 7, 7}));
  EXPECT_FALSE(is_direct_of(96, 9, {96, 1, 7, 7}));   // too large a window
  EXPECT_FALSE(is_direct_of(96, 1, {192, 1, 3, 3}));  // two result channels for each image channel
  EXPECT_FALSE(is_direct_of(1, 1, {4, 3, 3, 3}));
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
