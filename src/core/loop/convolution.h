// SPDX-License-Identifier: Apache-2.0
// The parameters of a generated convolution that do not follow from its operands, and their text form:
//
//   npugraph.convolution 1 bias channels_last groups 2 stride 2 2 padding 1 1 dilation 1 1
//
// Stride, padding and dilation have one number per dimension of the image, one or two. "bias", "channels_last" and
// "groups 1" may be missing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace npugraph::loop {

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
