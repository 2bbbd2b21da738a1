// SPDX-License-Identifier: Apache-2.0
// Convolutions as matrix products: for each image and group, weights [channels, k] times pixels [k, pixels of the
// result], where k counts through channels and taps. The second factor is never stored as a whole: its panels are
// packed from the planes (image_planes.h) of a strip of the result, which is as large as caches hold.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "codegen/convolution/image_planes.h"
#include "codegen/matmul/amx_tile.h"
#include "codegen/matmul/code.h"

namespace npugraph::codegen {

struct ImageProductPlan {
  DType dtype = DType::kF32;  // in memory
  int64_t batches = 0, groups = 0;
  int64_t m = 0, n = 0, k = 0;  // of a group
  int64_t batch_stride = 0;     // of the image, in bytes
  std::array<int64_t, 2> out{};
  bool bias = false;

  ImagePlanes planes;  // of a group of an image
  TileKind kind = TileKind::kF32;
  TileShape shape;
  int64_t steps = 0, block_steps = 0;  // of the whole sum, and of a part of it
  int64_t block_rows = 0;              // of a work item
  int64_t block_panels = 1;            // of a work item
  bool shares_panels = false;          // the few panels of a strip are packed first, and many rows share them
  bool copies_weights = false;         // all, to rows of whole steps, at least as many rows as a tile has
  bool widens_weights = false;         // those of a work item, before its panels multiply them
  int64_t strip_panels = 0;            // of a strip

  DType multiplied() const { return kind == TileKind::kBf16Pairs ? DType::kBF16 : DType::kF32; }
  int64_t panels() const { return (n + shape.columns() - 1) / shape.columns(); }
  int64_t panel_bytes() const { return steps * shape.columns() * 4; }
  int64_t row_blocks() const { return (m + block_rows - 1) / block_rows; }
  int64_t weight_rows() const { return std::max<int64_t>(m, shape.rows); }  // of a group, copied
  // Parts of the workspace, in this order.
  int64_t weight_bytes() const;
  int64_t strip_bytes() const;
  int64_t packed_bytes() const { return shares_panels ? strip_panels * panel_bytes() : 0; }
  int64_t workspace() const { return weight_bytes() + strip_bytes() + packed_bytes(); }
};

// Sets `planes` and the fields behind it from `image` and the fields before it.
void complete(ImageProductPlan& plan, const Image& image, const target::Target& target);

struct ImageProductCode {
  TileFunction* tile = nullptr;
  TileFunction* narrow_tile = nullptr;
  AmxCode amx;  // for the tiles
  InterleaveFunction* interleave = nullptr;
  WidenFunction* widen = nullptr;  // if weights are not of the type that is multiplied
  // Each is null if the target has none.
  CopyRowsFunction* copy = nullptr;
  GatherPanelFunction* gather = nullptr;
  GatherPanelFunction* narrow_gather = nullptr;
  // Either `store` or `epilogue` is set.
  StoreSumsFunction* store = nullptr;
  EpilogueFunction* epilogue = nullptr;
};

// Buffers as for make_convolution().
void run_image_product(const ImageProductPlan& plan, const ImageProductCode& code, const ng_call& call);

}  // namespace npugraph::codegen
