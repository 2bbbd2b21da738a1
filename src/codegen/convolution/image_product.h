// SPDX-License-Identifier: Apache-2.0
// Convolutions as products, for each image and group, of weights [channels, k] and of pixels [k, places of the result], where
// k counts channels and taps. The second factor is nowhere in memory: its panels are packed from planes (image_planes.h) of a
// strip of the result, which is as large as caches hold.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "codegen/convolution/image_pack.h"
#include "codegen/matmul/amx_tile.h"
#include "codegen/matmul/code.h"

namespace npugraph::codegen {

struct ImageProductPlan {
  DType dtype = DType::kF32;
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
  int64_t block_panels = 1;            // as well
  bool shares_panels = false;          // panels of a strip are packed first: they are few, and many rows share them
  bool copies_weights = false;         // to rows of whole steps, as many as a tile has at least
  int64_t strip_panels = 0;            // of a strip

  int64_t panels() const { return (n + shape.columns() - 1) / shape.columns(); }
  int64_t panel_bytes() const { return steps * shape.columns() * 4; }
  int64_t row_blocks() const { return (m + block_rows - 1) / block_rows; }
  int64_t weight_rows() const { return std::max<int64_t>(m, shape.rows); }  // that are copied, of a group
  // Scratch, one behind the other.
  int64_t weight_bytes() const;
  int64_t strip_bytes() const;
  int64_t packed_bytes() const { return shares_panels ? strip_panels * panel_bytes() : 0; }
  int64_t workspace() const { return weight_bytes() + strip_bytes() + packed_bytes(); }
};

// Chooses what follows from `image` and the first fields.
void complete(ImageProductPlan& plan, const Image& image, const target::Target& target);

struct ImageProductCode {
  TileFunction* tile = nullptr;
  TileFunction* narrow_tile = nullptr;
  AmxCode amx;  // for these
  InterleaveFunction* interleave = nullptr;
  CopyRowsFunction* copy = nullptr;       // null where the target has none
  GatherPanelFunction* gather = nullptr;  // as well
  GatherPanelFunction* narrow_gather = nullptr;
  StoreSumsFunction* store = nullptr;  // one of these two
  EpilogueFunction* epilogue = nullptr;
};

// Buffers as make_convolution says.
void run_image_product(const ImageProductPlan& plan, const ImageProductCode& code, const ng_call& call);

}  // namespace npugraph::codegen
