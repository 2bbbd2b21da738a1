// SPDX-License-Identifier: Apache-2.0
// Attention, and its gradient, for pairs of sequences, where each pair has its own rule of what a row sees.
#pragma once

#include <functional>
#include <vector>

#include "device/npu_ops/attention/attention_core.h"
#include "device/npu_ops/attention/stored_rows.h"

namespace npugraph::npu_ops {

// Pairs of a sequence of queries and the sequence of keys that it reads, for calls with or without lengths.
class SequencePairs {
 public:
  struct Given {
    Axes query_axes = Axes::kBNSD, key_axes = Axes::kBNSD;
    // For packed rows the ends of sequences; for batches and pages lengths, which keys in pages must have.
    GivenLengths query_lengths, key_lengths;
    Tensor table;  // of pages of keys, [sequences, pages]
  };

  // `query`: [batches, heads, rows, size]
  SequencePairs(const char* op, const Given& given, const Tensor& query, const StoredRows& key);

  // 1 if neither lengths nor packed rows nor pages tell sequences apart. Then all batches are one piece,
  // and sizes may be symbols.
  int64_t count() const { return queries_ ? queries_->count() : 1; }
  bool is_whole() const { return !queries_; }

  // The part of the pair in a tensor like the queries, and in rows like the keys.
  Tensor of_queries(const Tensor& tensor, int64_t index) const;
  Tensor of_keys(const StoredRows& rows, int64_t index) const;

  // The inverse, with 0 in rows of no sequence. Keys must not be in pages.
  Tensor join_queries(const std::vector<Tensor>& parts) const;
  Tensor join_keys(const std::vector<Tensor>& parts) const;

 private:
  std::optional<Sequences> queries_;  // none: all batches are one piece
  KeyRows keys_;
  c10::SymInt query_rows_, key_rows_;
};

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
