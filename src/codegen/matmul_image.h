// SPDX-License-Identifier: Apache-2.0
// The second factor of a convolution that is computed as a product of weights [channels out, k] and pixels [k, pixels out].
// It is nowhere in memory: panels of it are packed from the image when they are needed.
#pragma once

#include <array>
#include <cstdint>

#include "tensor/dtype.h"

namespace npugraph::codegen {

// Column oy * out_width + ox, row (c * kernel[0] + ky) * kernel[1] + kx is the pixel of channel c at
// (oy * step[0] - padding[0] + ky * dilation[0], ox * step[1] - padding[1] + kx * dilation[1]), or zero outside of the image.
struct Image {
  std::array<int64_t, 2> size{};
  std::array<int64_t, 2> kernel{};
  std::array<int64_t, 2> step{};
  std::array<int64_t, 2> padding{};
  std::array<int64_t, 2> dilation{};
  int64_t out_width = 0;
  std::array<int64_t, 3> strides{};  // in bytes: from channel to channel, row to row, pixel to pixel
};

// As pack_columns: the columns from `column` on.
void pack_image(const Image& image, const char* from, DType dtype, int64_t column, int64_t count, int64_t k,
                int64_t first, int64_t steps, bool pairs, int64_t columns, void* panel);

}  // namespace npugraph::codegen
