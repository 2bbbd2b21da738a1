// SPDX-License-Identifier: Apache-2.0
#include "loop/attention.h"

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

}  // namespace
}  // namespace npugraph::loop
