// SPDX-License-Identifier: Apache-2.0
// The images of convolutions: which of their pixels a pixel of the result sums over, and copies of them with the
// padding.
#pragma once

#include <array>
#include <cstdint>

#include <llvm/IR/IRBuilder.h>

#include "target/target.h"
#include "tensor/dtype.h"

namespace npugraph::codegen {

// Copies of rows of pixels with zeros around them, as machine code.

// In each row, elements [begin, end) of `to` become those at from, from + step, ..; elements [0, begin) and [end,
// count) become zero. Strides are in bytes, from row to row.
using CopyRowsFunction = void(const void* from, int64_t from_stride, int64_t rows, int64_t begin, int64_t end,
                              int64_t count, void* to, int64_t to_stride);

// Supports steps of one or two elements, of f32, of bf16 that become `to_type`, or of f16 that become f32, on targets
// with masks; null for others. Thread-safe; made on first use.
CopyRowsFunction* copy_rows_code(const target::Target& target, DType from_type, DType to_type, int64_t step);

// The result at (oy, ox) sums over the channels and the pixels at (oy * step[0] - padding[0] + ky * dilation[0],
// ox * step[1] - padding[1] + kx * dilation[1]), which are zero outside of the image.
struct Image {
  std::array<int64_t, 2> size{};
  std::array<int64_t, 2> kernel{};
  std::array<int64_t, 2> step{};
  std::array<int64_t, 2> padding{};
  std::array<int64_t, 2> dilation{};
  std::array<int64_t, 3> strides{};  // in bytes: from channel to channel, row to row, pixel to pixel

  int64_t taps() const { return kernel[0] * kernel[1]; }
  // Per dimension: the number of pixels of the result, and how far a kernel reaches beyond its first tap, in such
  // pixels.
  int64_t out(size_t d) const { return (size[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / step[d] + 1; }
  int64_t reach(size_t d) const { return (kernel[d] - 1) * dilation[d] / step[d]; }
};

// A rectangle.
struct Pixels {
  std::array<int64_t, 2> first{}, size{};
};

// Cuts a result of `out` pixels into pieces and returns piece `item` modulo their number, counted through columns and
// then rows of pieces. Divides `item` by their number.
Pixels take_pixels(int64_t& item, const std::array<int64_t, 2>& out, const std::array<int64_t, 2>& piece);

// Copies the `count` pixels x, x + step[1], .. of rows of an image, with zeros for those outside of it. `to_type` is
// f32 or the type of the image; `code` is that of copy_rows_code() for these types and step[1].
class RowCopy {
 public:
  RowCopy(const Image& image, DType dtype, int64_t x, int64_t count, DType to_type, CopyRowsFunction* code);
  // Copies rows y, y + y_step, .. of a channel; to_stride is in bytes.
  void copy(const char* channel, int64_t y, int64_t y_step, int64_t rows, char* to, int64_t to_stride) const;

 private:
  void copy_row(const char* from, char* to) const;

  const Image& image_;
  DType dtype_, to_type_;
  CopyRowsFunction* code_;
  int64_t count_, begin_, end_;  // pixels [begin, end) are inside of the image
  int64_t first_, stride_;       // offset and stride of the pixels inside, in bytes
};

}  // namespace npugraph::codegen
