// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions whose image and result have channels last, that is, adjacent in memory. The lanes of a vector
// are channels, and a tile is several adjacent pixels. Windows of the image are copied as f32, with the padding around
// them, to a buffer that stays in a cache.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "codegen/convolution/direct.h"
#include "codegen/convolution/image.h"
#include "codegen/matmul/code.h"

namespace npugraph::codegen {

struct DepthwisePlan {
  Image image;
  DType dtype = DType::kF32;  // of the image, the weights and the bias
  int64_t batches = 0, channels = 0;
  std::array<int64_t, 2> out{};  // pixels of the result
  int64_t batch_stride = 0;      // of the image, in bytes
  bool bias = false;

  int64_t lanes = 0;                // channels of a piece
  std::array<int64_t, 2> piece{};   // pixels of the result
  std::array<int64_t, 2> window{};  // pixels of the image under a piece that is at least as wide as a tile
  std::vector<int64_t> offsets;     // of taps, in bytes

  int64_t pieces(size_t d) const { return (out[d] + piece[d] - 1) / piece[d]; }
  int64_t blocks() const { return (channels + lanes - 1) / lanes; }
  int64_t items() const { return batches * pieces(0) * pieces(1) * blocks(); }
};

// Sets the fields that follow from the others. Returns false if windows or taps exceed the limits that
// loop::is_direct() checks.
bool complete(DepthwisePlan& plan, const target::Target& target);

struct DepthwiseCode {
  DirectTileFunction* tile = nullptr;
  CopyRowsFunction* copy = nullptr;  // null if the target has none
  // Either `store` or `epilogue` is set.
  StoreSumsFunction* store = nullptr;
  EpilogueFunction* epilogue = nullptr;
};

// Buffers as for make_convolution(). Rows of the epilogue are pixels, and its columns are channels.
void run_depthwise(const DepthwisePlan& plan, const DepthwiseCode& code, const ng_call& call);

}  // namespace npugraph::codegen
