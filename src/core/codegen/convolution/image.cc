// SPDX-License-Identifier: Apache-2.0
#include "codegen/convolution/image.h"

#include <algorithm>
#include <cstring>

#include "codegen/matmul/copy.h"
#include "codegen/task/work_items.h"

namespace npugraph::codegen {
namespace {

// Index of the first of the places x, x + step, .. that is at least 0, or at least `size`; `count` if none is.
int64_t first_inside(int64_t x, int64_t step, int64_t count) {
  return std::clamp<int64_t>(x >= 0 ? 0 : divide_up(-x, step), 0, count);
}
int64_t first_beyond(int64_t x, int64_t size, int64_t step, int64_t count) {
  return first_inside(x - size, step, count);
}

}  // namespace

Pixels take_pixels(int64_t& item, const std::array<int64_t, 2>& out, const std::array<int64_t, 2>& piece) {
  Pixels taken;
  for (const size_t d : {1, 0}) {
    const int64_t pieces = divide_up(out[d], piece[d]);
    taken.first[d] = item % pieces * piece[d];
    taken.size[d] = std::min(piece[d], out[d] - taken.first[d]);
    item /= pieces;
  }
  return taken;
}

RowCopy::RowCopy(const Image& image, DType dtype, int64_t x, int64_t count, DType to_type, CopyRowsFunction* code)
    : image_(image), dtype_(dtype), to_type_(to_type), code_(code), count_(count) {
  const int64_t step = image.step[1];
  begin_ = first_inside(x, step, count);
  end_ = std::max(first_beyond(x, image.size[1], step, count), begin_);
  first_ = (x + begin_ * step) * image.strides[2];
  stride_ = step * image.strides[2];
  if (image.strides[2] != size_of(dtype)) code_ = nullptr;
}

void RowCopy::copy(const char* channel, int64_t y, int64_t y_step, int64_t rows, char* to, int64_t to_stride) const {
  const int64_t begin = first_inside(y, y_step, rows), row_bytes = count_ * size_of(to_type_);
  const int64_t end = begin_ == end_ ? begin : std::max(first_beyond(y, image_.size[0], y_step, rows), begin);
  for (int64_t r = 0; r < begin; ++r) std::memset(to + r * to_stride, 0, row_bytes);
  for (int64_t r = end; r < rows; ++r) std::memset(to + r * to_stride, 0, row_bytes);
  const char* from = channel + (y + begin * y_step) * image_.strides[1] + first_;
  const int64_t from_stride = y_step * image_.strides[1];
  if (code_ != nullptr)
    return code_(from, from_stride, end - begin, begin_, end_, count_, to + begin * to_stride, to_stride);
  for (int64_t r = begin; r < end; ++r, from += from_stride) copy_row(from, to + r * to_stride);
}

void RowCopy::copy_row(const char* from, char* to) const {
  const int64_t size = size_of(to_type_);
  std::memset(to, 0, begin_ * size);
  std::memset(to + end_ * size, 0, (count_ - end_) * size);
  copy_elements(from, dtype_, stride_, end_ - begin_, to + begin_ * size, to_type_, end_ - begin_);
}

}  // namespace npugraph::codegen
