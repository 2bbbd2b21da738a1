// SPDX-License-Identifier: Apache-2.0
// What a generated convolution computes beside what its operands say, and its text form:
//
//   npugraph.convolution 1 bias channels_last groups 2 stride 2 2 padding 1 1 dilation 1 1
//
// One number per dimension of the image, one or two. "bias", "channels_last" and "groups 1" may be
// missing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace npugraph::loop {

struct Convolution {
  bool bias = false;
  bool channels_last = false;  // the channels of the result are neighbours in memory, as those of the image are
  int64_t groups = 1;
  std::vector<int64_t> stride;
  std::vector<int64_t> padding;
  std::vector<int64_t> dilation;

  bool operator==(const Convolution&) const = default;
};

// Direct convolutions (codegen/direct.h) sum over at most so many taps, and copy a window of at most so many floats.
inline constexpr int64_t kDirectTaps = 1024;
inline constexpr int64_t kDirectWindow = 16 << 10;

// Depthwise ones whose channels come last (codegen/depthwise.h) have at most so many taps, and windows of so many pixels.
inline constexpr int64_t kDepthwiseTaps = 256;
inline constexpr int64_t kDepthwiseWindow = 1536;

// Whether a convolution of these weights [channels out, channels in / groups, kernel..] is computed directly: its groups have
// too few channels for a product, and windows of all its pieces fit. With channels last, only depthwise ones are.
bool is_direct(const Convolution& convolution, std::span<const int64_t> weights);

// Channels of a group of the result from which on it is a product.
inline constexpr int64_t kProductChannels = 8;

// What is printed parses to an equal value.
std::string print(const Convolution& convolution);

// UserError with the source on any other text, and on numbers that no convolution has.
Convolution parse_convolution(std::string_view text, std::string_view source);

}  // namespace npugraph::loop
