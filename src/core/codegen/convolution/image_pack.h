// SPDX-License-Identifier: Apache-2.0
// Panels (matmul/tile_shape.h) of the pixels of a convolution. A column of a panel belongs to a pixel of the result;
// its row k is the element that tap k reads for this pixel in the planes of a strip.
#pragma once

#include <cstdint>

#include <llvm/IR/IRBuilder.h>

#include "codegen/convolution/image_planes.h"
#include "codegen/matmul/tile.h"

namespace npugraph::codegen {

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
