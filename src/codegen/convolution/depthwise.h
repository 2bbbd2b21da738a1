// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions of images whose channels are neighbours in memory (channels last), and whose results are: lanes are
// channels, and a tile is pixels beside each other. Windows of the image are copied into a cache as f32, with the padding
// around them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "codegen/convolution/direct_tile.h"
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
  std::array<int64_t, 2> window{};  // pixels under them, and under those that a tile has besides
  std::vector<int64_t> offsets;     // of taps, in bytes

  int64_t pieces(size_t d) const { return (out[d] + piece[d] - 1) / piece[d]; }
  int64_t blocks() const { return (channels + lanes - 1) / lanes; }
  int64_t items() const { return batches * pieces(0) * pieces(1) * blocks(); }
};

// Chooses what follows from the rest; false where windows are too large for a cache: loop::is_direct says which are not.
bool complete(DepthwisePlan& plan, const target::Target& target);

struct DepthwiseCode {
  DirectTileFunction* tile = nullptr;
  CopyRowsFunction* copy = nullptr;    // null where the target has none
  StoreSumsFunction* store = nullptr;  // one of these two
  EpilogueFunction* epilogue = nullptr;
};

// Buffers as make_convolution says; rows of the epilogue are pixels, its columns channels.
void run_depthwise(const DepthwisePlan& plan, const DepthwiseCode& code, const ng_call& call);

}  // namespace npugraph::codegen
