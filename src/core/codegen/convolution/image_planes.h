// SPDX-License-Identifier: Apache-2.0
// Planes: the pixels that a strip of the result of a convolution sums over, copied so that each tap is a fixed offset.
// For each channel, and each phase (y % step[0], x % step[1]) that taps have, there are rows of `pitch` pixels with the
// padding around them. Adjacent pixels in a row of the result read adjacent pixels there, and the row below reads them
// `pitch` elements further.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/convolution/image.h"

namespace npugraph::codegen {

struct ImagePlanes {
  Image image;
  DType dtype = DType::kF32;  // of the planes
  DType image_dtype = DType::kF32;
  int64_t channels = 0;
  bool in_place = false;  // the image itself has this layout
  int64_t out_rows = 0;   // of a strip, at most
  int64_t pitch = 0;      // elements
  int64_t phase_elements = 0;
  int64_t channel_bytes = 0;  // from channel to channel
  std::vector<int64_t> phases_y, phases_x;
  // Offsets in bytes, by row (c * kernel[0] + ky) * kernel[1] + kx; the additional last one is that of a channel of
  // zeros.
  std::vector<int64_t> offsets;

  int64_t bytes() const;
  // Includes the channel of zeros, which pairs need if the number of rows is odd.
  int64_t copied_channels() const { return channels + (dtype == DType::kF32 || std::ssize(offsets) % 2 != 0 ? 0 : 1); }
  // Distance in elements from the place of one pixel of the result to that of the pixel y rows and x columns further.
  int64_t place(int64_t y, int64_t x) const { return y * pitch + x; }
};

// Elements behind the place of a pixel that can be read.
inline constexpr int64_t kReadable = 64;

// Makes the planes for strips of at most `out_rows` rows of the result. Copied planes have type `dtype`: that of the
// image, or f32.
ImagePlanes make_planes(const Image& image, DType image_dtype, DType dtype, int64_t channels, int64_t out_rows);

// Copies a channel of the strip that begins at row `first_row` of the result. The channel behind the last one is zeros.
void copy_channel(const ImagePlanes& planes, const char* image, int64_t channel, int64_t first_row, char* to,
                  CopyRowsFunction* code);

}  // namespace npugraph::codegen
