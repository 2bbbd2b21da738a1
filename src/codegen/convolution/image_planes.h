// SPDX-License-Identifier: Apache-2.0
// The pixels that a strip of the result of a convolution sums over, copied so that a tap is a distance: for each channel, and
// each phase (y % step[0], x % step[1]) that taps have, rows of `pitch` pixels with the padding around them. Neighbours in a
// row of the result read neighbours there, and a row below reads a pitch further.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/convolution/image.h"

namespace npugraph::codegen {

struct ImagePlanes {
  Image image;
  DType dtype = DType::kF32;
  int64_t channels = 0;
  bool in_place = false;  // the image itself lies like this
  int64_t out_rows = 0;   // of a strip, at most
  int64_t pitch = 0;      // elements
  int64_t phase_elements = 0;
  int64_t channel_bytes = 0;  // from channel to channel
  std::vector<int64_t> phases_y, phases_x;
  std::vector<int64_t>
      offsets;  // in bytes: of row (c * kernel[0] + ky) * kernel[1] + kx, and one behind the last: zeros

  int64_t bytes() const;
  // With one of zeros, which pairs need where the rows are odd.
  int64_t copied_channels() const { return channels + (dtype == DType::kF32 || std::ssize(offsets) % 2 != 0 ? 0 : 1); }
  // Elements from the place of one pixel of the result to that of another one.
  int64_t place(int64_t y, int64_t x) const { return y * pitch + x; }
};

// Elements behind the place of a pixel that can be read.
inline constexpr int64_t kReadable = 64;

// For strips of so many rows of the result.
ImagePlanes make_planes(const Image& image, DType dtype, int64_t channels, int64_t out_rows);

// A channel of the strip that begins at a row of the result; the one behind the last are zeros.
void copy_channel(const ImagePlanes& planes, const char* image, int64_t channel, int64_t first_row, char* to,
                  CopyRowsFunction* code);

}  // namespace npugraph::codegen
