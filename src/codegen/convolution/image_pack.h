// SPDX-License-Identifier: Apache-2.0
// Panels (matmul/tile_shape.h) of the pixels of a convolution: column c of a panel is a pixel of the result, row k what tap k reads
// for it in the planes of a strip.
#pragma once

#include <cstdint>

#include <llvm/IR/IRBuilder.h>

#include "codegen/convolution/image_planes.h"
#include "codegen/matmul/tile.h"

namespace npugraph::codegen {

// Packs `steps` steps of a panel of one vector or two: lane l of vector v of step s is element order[v][l] of the 32 elements at
// places[v] + offsets[s]; of pairs, lane l is an element of each of the steps' two rows, and the order is one of 32 elements
// of 16 bits of both: 32 + i is element i of the second.
using GatherPanelFunction = void(const void* first, const void* second, const int64_t* offsets, int64_t steps,
                                 const void* order, void* panel);

// Whether the target has instructions for it; otherwise panels are copied in pieces.
bool has_gather_panel(const target::Target& target);
// Thread-safe; made on first use.
GatherPanelFunction* gather_panel_code(const target::Target& target, TileKind kind, int vectors);

// Columns [column, column + count) of a panel of `columns`, as the result's pixels are counted from the first row of the
// strip on; `width` of them are a row.
struct PanelPlace {
  int64_t column, count, width, columns;
};

// Steps [first, first + steps) of the panel; `gather` may be null.
void pack_panel(const ImagePlanes& planes, const char* strip, const PanelPlace& place, TileKind kind, int64_t first,
                int64_t steps, GatherPanelFunction* gather, void* panel);

}  // namespace npugraph::codegen
