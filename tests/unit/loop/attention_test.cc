// SPDX-License-Identifier: Apache-2.0
#include "loop/attention.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace npugraph::loop {
namespace {

TEST(AttentionText, RoundTrips) {
  for (const Attention& attention :
       {Attention{}, Attention{.causal = true}, Attention{.mask = true, .logsumexp = true},
        Attention{.causal = true, .mask = true, .logsumexp = true, .scale = 1.0 / 3}, Attention{.scale = -1e-300}})
    EXPECT_EQ(parse_attention(print(attention), "test"), attention);
  EXPECT_EQ(print({.causal = true, .scale = 0.125}), "npugraph.attention 1 causal scale 0.125");
}

TEST(AttentionText, RefusesOtherTexts) {
  for (const char* text : {"", "npugraph.loop 1", "npugraph.attention 1 window", "npugraph.attention 1 scale",
                           "npugraph.attention 1 scale 0.1x", "npugraph.attention 12"})
    EXPECT_THROW(parse_attention(text, "test"), UserError) << text;
}

}  // namespace
}  // namespace npugraph::loop
