// SPDX-License-Identifier: Apache-2.0
#include "codegen/convolution/image_planes.h"

#include <algorithm>
#include <cstring>

namespace npugraph::codegen {
namespace {

// The phases of taps, in order.
std::vector<int64_t> phases_of(const Image& image, size_t d) {
  std::vector<int64_t> phases;
  for (int64_t tap = 0; tap < image.kernel[d]; ++tap) {
    const int64_t phase = tap * image.dilation[d] % image.step[d];
    if (std::ranges::find(phases, phase) == phases.end()) phases.push_back(phase);
  }
  return phases;
}

int64_t index_of(const std::vector<int64_t>& phases, int64_t phase) {
  return std::ranges::find(phases, phase) - phases.begin();
}

bool lies_so(const Image& image, DType dtype) {
  const auto is_one = [](int64_t number) { return number == 1; };
  return image.taps() == 1 && std::ranges::all_of(image.step, is_one) && image.padding[0] == 0 &&
         image.padding[1] == 0 && image.strides[2] == size_of(dtype) &&
         (image.size[0] == 1 || image.strides[1] == image.size[1] * size_of(dtype));
}

}  // namespace

int64_t ImagePlanes::bytes() const {
  return in_place ? 0 : copied_channels() * channel_bytes + kReadable * size_of(dtype);
}

ImagePlanes make_planes(const Image& image, DType image_dtype, DType dtype, int64_t channels, int64_t out_rows) {
  ImagePlanes planes{
      .image = image, .dtype = dtype, .image_dtype = image_dtype, .channels = channels, .out_rows = out_rows};
  planes.in_place = lies_so(image, image_dtype);
  if (planes.in_place) planes.dtype = image_dtype;
  const int64_t size = size_of(planes.dtype);
  planes.phases_y = phases_of(image, 0);
  planes.phases_x = phases_of(image, 1);
  // The padding at the end of a row is also the padding at the beginning of the next one.
  const int64_t whole = image.out(1) + image.reach(1);
  planes.pitch = image.step[1] == 1 ? whole - image.padding[1] : whole;
  planes.phase_elements = (out_rows + image.reach(0)) * planes.pitch + (whole - planes.pitch);
  const auto phases = static_cast<int64_t>(planes.phases_y.size() * planes.phases_x.size());
  planes.channel_bytes = planes.in_place ? image.strides[0] : phases * planes.phase_elements * size;

  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t ky = 0; ky < image.kernel[0]; ++ky) {
      for (int64_t kx = 0; kx < image.kernel[1]; ++kx) {
        const int64_t y = ky * image.dilation[0], x = kx * image.dilation[1];
        const int64_t phase = index_of(planes.phases_y, y % image.step[0]) * std::ssize(planes.phases_x) +
                              index_of(planes.phases_x, x % image.step[1]);
        const int64_t element = phase * planes.phase_elements + planes.place(y / image.step[0], x / image.step[1]);
        planes.offsets.push_back(c * planes.channel_bytes + element * size);
      }
    }
  }
  planes.offsets.push_back(channels * planes.channel_bytes);
  return planes;
}

void copy_channel(const ImagePlanes& planes, const char* image, int64_t channel, int64_t first_row, char* to,
                  CopyRowsFunction* code) {
  const Image& of = planes.image;
  const int64_t size = size_of(planes.dtype);
  if (channel == planes.channels) {
    std::memset(to, 0, planes.channel_bytes);
    return;
  }
  const char* plane = image + channel * of.strides[0];
  const int64_t rows = planes.out_rows + of.reach(0);
  for (const int64_t phase_y : planes.phases_y) {
    for (const int64_t phase_x : planes.phases_x) {
      const RowCopy pixels(of, planes.image_dtype, phase_x - of.padding[1], planes.pitch, planes.dtype, code);
      const int64_t top = first_row * of.step[0] - of.padding[0] + phase_y, row_bytes = planes.pitch * size;
      pixels.copy(plane, top, of.step[0], rows, to, row_bytes);
      std::memset(to + rows * row_bytes, 0, planes.phase_elements * size - rows * row_bytes);
      to += planes.phase_elements * size;
    }
  }
}

}  // namespace npugraph::codegen
