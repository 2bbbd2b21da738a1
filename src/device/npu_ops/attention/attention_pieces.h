// SPDX-License-Identifier: Apache-2.0
// Attention, and its gradient, for pairs of sequences, where each pair has its own rule of what a row sees.
#pragma once

#include <functional>

#include "device/npu_ops/attention/attention_core.h"
#include "device/npu_ops/attention/sequence_pairs.h"

namespace npugraph::npu_ops {

// Keys whose rows consist of bytes: first elements, in the type of the tensor; then `rope_size` further elements, in
// the type of queries; then scales in float32, one for each `tile_size` first elements. Values are the first elements.
struct KeysInTiles {
  int64_t tile_size = 0, rope_size = 0;
};

struct AttentionPieces {
  struct Piece {
    Tensor query, key, value;
    Weighting weighting;
  };

  const char* op;
  Tensor query;  // [batches, heads, rows, size]
  StoredRows key, value;
  std::optional<StoredRows> key_rope;  // further elements of heads of key
  std::optional<KeysInTiles> tiles;
  SequencePairs pairs;
  std::function<Weighting(int64_t index, const Tensor& query, const Tensor& key)> weighting;

  Piece piece(int64_t index) const;

  // Attention of all pieces, [batches, heads, rows, n]; 0 in rows of no sequence.
  Attention attend() const;
  // Gradients, given the result of attend(). Those of key and value are in the layout in which these are stored, with
  // the further elements of heads of key.
  AttentionGradients gradients(const Attention& saved, const Tensor& gradient) const;
};

}  // namespace npugraph::npu_ops
