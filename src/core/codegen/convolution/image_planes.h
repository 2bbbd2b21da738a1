// SPDX-License-Identifier: Apache-2.0
// Planes: the pixels that a strip of the result of a convolution sums over, copied so that each tap is a fixed offset.
// For each channel, and each phase (y % step[0], x % step[1]) that taps have, there are rows of `pitch` pixels with the
// padding around them. Adjacent pixels in a row of the result read adjacent pixels there, and the row below reads them
// `pitch` elements further. Panels of products are packed from them.
#pragma once

#include <cstdint>
#include <vector>

#include <llvm/IR/IRBuilder.h>

#include "codegen/convolution/image.h"
#include "codegen/matmul/tile.h"

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

// Panels (matmul/tile.h) of the pixels of a convolution. A column of a panel belongs to a pixel of the result;
// its row k is the element that tap k reads for this pixel in the planes of a strip.

// Packs `steps` steps of a panel of one or two vectors, whose places are `first` and `second`. Lane l of vector v of
// step s is element order[v][l] of the 32 elements at the vector's place + offsets[s] (bytes). For pairs, step s has
// two rows of 32 elements of 16 bits, at offsets[2 * s] and offsets[2 * s + 1]. A lane holds one element of each row,
// and order[v] has an entry for each of the 32 elements: i is element i of the first row, 32 + i is element i of the
// second.
using GatherPanelFunction = void(const void* first, const void* second, const int64_t* offsets, int64_t steps,
                                 const void* order, void* panel);

// Whether the target has the instructions of a GatherPanelFunction; otherwise panels are copied in pieces.
bool has_gather_panel(const target::Target& target);
// Thread-safe; made on first use.
GatherPanelFunction* gather_panel_code(const target::Target& target, TileKind kind, int vectors);

// The pixels [column, column + count) of the result, counted from the first row of the strip on, as the first `count`
// of the `columns` columns of a panel. A row of the result has `width` pixels.
struct PanelPlace {
  int64_t column, count, width, columns;
};

// Packs steps [first, first + steps) of the panel; `gather` may be null.
void pack_panel(const ImagePlanes& planes, const char* strip, const PanelPlace& place, TileKind kind, int64_t first,
                int64_t steps, GatherPanelFunction* gather, void* panel);

}  // namespace npugraph::codegen
