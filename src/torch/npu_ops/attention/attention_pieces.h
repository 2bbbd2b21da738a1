// SPDX-License-Identifier: Apache-2.0
// Attention, and its gradient, of pairs of sequences of which each has its own rule of what a row sees.
#pragma once

#include <functional>

#include "torch/npu_ops/attention/attention_core.h"
#include "torch/npu_ops/attention/sequence_pairs.h"

namespace npugraph::npu_ops {

// Keys of which a row holds bytes, one after another: of its first elements, in the type of the tensor; of the others
// (`rope_size`), in the type of queries; and of scales in float32, one for each `tile_size` first elements. Values are the first
// elements.
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

  // Of all pieces, [batches, heads, rows, n]. Rows of no sequence have 0.
  Attention attend() const;
  // From what attend() gave. Of key and value as they are stored, further elements of heads included.
  AttentionGradients gradients(const Attention& saved, const Tensor& gradient) const;
};

}  // namespace npugraph::npu_ops
