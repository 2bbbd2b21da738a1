// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul_image.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "codegen/matmul_copy.h"

namespace npugraph::codegen {
namespace {

constexpr int64_t kMostColumns = 64;
constexpr int64_t kWide = 32;  // the usual panel: copied by a few instructions where it is whole

// Columns beside each other in a row of the result.
struct Span {
  int64_t at;  // the first of them, in the panel
  int64_t count;
  int64_t y, x;  // in the result
};

// Those of a panel.
class Spans {
 public:
  Spans(const Image& image, int64_t column, int64_t count) {
    for (int64_t at = 0; at < count;) {
      const int64_t y = (column + at) / image.out_width, x = (column + at) % image.out_width;
      const int64_t length = std::min(count - at, image.out_width - x);
      spans_[size_++] = {at, length, y, x};
      at += length;
    }
  }
  const Span* begin() const { return spans_.data(); }
  const Span* end() const { return spans_.data() + size_; }

 private:
  std::array<Span, kMostColumns> spans_;
  size_t size_ = 0;
};

class Packer {
 public:
  // Rows from k on.
  Packer(const Image& image, const char* from, DType dtype, int64_t column, int64_t count, int64_t k)
      : image_(image),
        size_(size_of(dtype)),
        spans_(image, column, count),
        plane_(from + k / (image.kernel[0] * image.kernel[1]) * image.strides[0]),
        ky_(k / image.kernel[1] % image.kernel[0]),
        kx_(k % image.kernel[1]) {}

  // The row of the columns that comes next.
  template <typename Element>
  void pack_row(Element* to) {
    const int64_t down = ky_ * image_.dilation[0] - image_.padding[0];
    const int64_t right = kx_ * image_.dilation[1] - image_.padding[1];
    for (const Span& span : spans_) {
      const int64_t y = span.y * image_.step[0] + down;
      if (y < 0 || y >= image_.size[0]) {
        std::fill_n(to + span.at, span.count, Element{});
      } else {
        pack_span(plane_ + y * image_.strides[1], span.x * image_.step[1] + right, span.count, to + span.at);
      }
    }
    if (++kx_ < image_.kernel[1]) return;
    kx_ = 0;
    if (++ky_ < image_.kernel[0]) return;
    ky_ = 0;
    plane_ += image_.strides[0];
  }

 private:
  // `count` pixels of a row of the image, from x on.
  template <typename Element>
  void pack_span(const char* row, int64_t x, int64_t count, Element* to) const {
    const int64_t step = image_.step[1];
    const int64_t last = x + (count - 1) * step;
    if (count == kWide && step == 1 && image_.strides[2] == size_ && x >= 0 && last < image_.size[1]) {
      std::memcpy(to, row + x * size_, kWide * sizeof(Element));
      return;
    }
    const int64_t begin = std::clamp<int64_t>(x >= 0 ? 0 : (-x + step - 1) / step, 0, count);
    const int64_t end =
        std::clamp<int64_t>(x >= image_.size[1] ? 0 : (image_.size[1] - 1 - x) / step + 1, begin, count);
    std::fill_n(to, begin, Element{});
    std::fill(to + end, to + count, Element{});
    if (begin == end) return;
    const char* pixel = row + (x + begin * step) * image_.strides[2];
    const int64_t distance = step * image_.strides[2];
    if (distance == size_) {
      std::memcpy(to + begin, pixel, (end - begin) * size_);
    } else {
      for (int64_t i = begin; i < end; ++i, pixel += distance) std::memcpy(to + i, pixel, sizeof(Element));
    }
  }

  const Image& image_;
  int64_t size_;
  Spans spans_;
  const char* plane_;  // of the channel
  int64_t ky_, kx_;
};

}  // namespace

void pack_image(const Image& image, const char* from, DType dtype, int64_t column, int64_t count, int64_t k,
                int64_t first, int64_t steps, bool pairs, int64_t columns, void* panel) {
  NG_CHECK(columns <= kMostColumns && size_of(dtype) == (pairs ? 2 : 4), "no panel of an image: ", name_of(dtype));
  Packer packer(image, from, dtype, column, count, pairs ? 2 * first : first);
  if (!pairs) {
    auto* to = static_cast<uint32_t*>(panel);
    for (int64_t s = first; s < first + steps; ++s, to += columns) {
      packer.pack_row(to);
      std::fill(to + count, to + columns, 0);
    }
    return;
  }
  auto* to = static_cast<uint16_t*>(panel);
  for (int64_t s = first; s < first + steps; ++s, to += 2 * columns) {
    uint16_t rows[2][kMostColumns] = {};
    packer.pack_row(rows[0]);
    if (2 * s + 1 < k) packer.pack_row(rows[1]);
    for (int64_t c = 0; c < columns; ++c) {
      to[2 * c] = rows[0][c];
      to[2 * c + 1] = rows[1][c];
    }
  }
}

}  // namespace npugraph::codegen
