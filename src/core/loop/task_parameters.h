// SPDX-License-Identifier: Apache-2.0
// The parameters of generated attention and convolutions that do not follow from their operands, and their text forms.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace npugraph::loop {

// Of an attention:
//
//   npugraph.attention 1 after 0 before 127 at given mask nan logsumexp scale 0.125
//
// Each word may be missing together with its number.
// Query head h of H reads head h / (H / heads of the keys) of keys and values.

// Position of the first query among the keys.
enum class AttentionPosition : uint8_t {
  kStart,  // at the first key
  kEnd,    // so that the last query is at the last key
  kGiven,  // given by an integer in memory
};

struct Attention {
  // A query at position p sees the keys from p - before to p + after; without a number there is no such limit.
  std::optional<int64_t> before;
  std::optional<int64_t> after;
  AttentionPosition position = AttentionPosition::kStart;
  bool mask = false;            // there is a mask tensor: floats are added to the scores, booleans select the keys seen
  bool empty_is_nan = false;    // a query that sees no keys gives NaNs instead of zeros
  bool logsumexp = false;       // the log-sum-exp of the scores of each query is another result
  std::optional<double> scale;  // factor of the products of queries and keys; by default 1 / sqrt(size of a head)

  bool operator==(const Attention&) const = default;
};

// Largest magnitude of `before` and `after`.
inline constexpr int64_t kMostKeys = int64_t{1} << 40;

// The text parses to an equal value.
std::string print(const Attention& attention);

// UserError with the source on any other text.
Attention parse_attention(std::string_view text, std::string_view source);

// Of a convolution:
//
//   npugraph.convolution 1 bias channels_last groups 2 stride 2 2 padding 1 1 dilation 1 1
//
// Stride, padding and dilation have one number per dimension of the image, one or two. "bias", "channels_last" and
// "groups 1" may be missing.

struct Convolution {
  bool bias = false;
  bool channels_last = false;  // the channels are adjacent in memory, in the image and in the result
  int64_t groups = 1;
  std::vector<int64_t> stride;
  std::vector<int64_t> padding;
  std::vector<int64_t> dilation;

  bool operator==(const Convolution&) const = default;
};

// Limits of direct convolutions (codegen/convolution/direct.h): taps of a sum, and floats of a copied window.
inline constexpr int64_t kDirectTaps = 1024;
inline constexpr int64_t kDirectWindow = 16 << 10;

// Limits of depthwise convolutions with channels last (codegen/convolution/depthwise.h): taps, and pixels of a window.
inline constexpr int64_t kDepthwiseTaps = 256;
inline constexpr int64_t kDepthwiseWindow = 1536;

// Whether a convolution of these weights [channels out, channels in / groups, kernel..] is computed directly: its
// groups have too few channels for a product, and the window of its smallest pieces fits. With channels last, only
// depthwise ones are.
bool is_direct(const Convolution& convolution, std::span<const int64_t> weights);

// From this number of result channels per group on, a convolution is computed as a product.
inline constexpr int64_t kProductChannels = 8;

// The text parses to an equal value.
std::string print(const Convolution& convolution);

// UserError with the source on any other text, and on numbers that no convolution has.
Convolution parse_convolution(std::string_view text, std::string_view source);

}  // namespace npugraph::loop
