// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/attention/attention_pieces.h"

#include <utility>

namespace npugraph::npu_ops {
namespace {

constexpr const char *kQueries = "the lengths of queries", *kKeys = "the lengths of keys";

Sequences sequences_of(const char* op, const char* name, Axes axes, const GivenLengths& lengths, const Tensor& tensor) {
  if (!is_packed(axes)) return Sequences::batched(op, name, lengths, tensor);
  TORCH_CHECK(lengths, op, ": layout TND needs ", name);
  return Sequences::packed(from_ends(op, name, *lengths));
}

}  // namespace

SequencePairs::SequencePairs(const char* op, const Given& given, const Tensor& query, const StoredRows& key)
    : query_rows_(query.sym_size(2)) {
  const bool is_packed_here = is_packed(given.query_axes) || (!key.in_pages() && is_packed(given.key_axes));
  if (!key.in_pages()) key_rows_ = key.stored().sym_size(2);
  if (!is_packed_here && !key.in_pages() && !given.query_lengths && !given.key_lengths) return;
  queries_ = sequences_of(op, kQueries, given.query_axes, given.query_lengths, query);
  if (key.in_pages()) {
    keys_.table = given.table;
    keys_.lengths = given.key_lengths.value();
  } else {
    keys_.sequences = sequences_of(op, kKeys, given.key_axes, given.key_lengths, key.stored());
    for (int64_t index = 0; index < keys_.sequences->count(); ++index)
      keys_.lengths.push_back(keys_.sequences->length(index));
  }
  TORCH_CHECK(static_cast<int64_t>(keys_.lengths.size()) == count(), op, ": there are ", count(),
              " sequences of queries and ", keys_.lengths.size(), " of keys");
}

Tensor SequencePairs::of_queries(const Tensor& tensor, int64_t index) const {
  return queries_ ? queries_->part(tensor, index) : tensor;
}

Tensor SequencePairs::of_keys(const StoredRows& rows, int64_t index) const {
  return queries_ ? keys_.of(rows, index) : rows.all();
}

Tensor SequencePairs::join_queries(const std::vector<Tensor>& parts) const {
  return queries_ ? queries_->join(parts, query_rows_) : parts.front();
}

Tensor SequencePairs::join_keys(const std::vector<Tensor>& parts) const {
  return queries_ ? keys_.sequences->join(parts, key_rows_) : parts.front();
}

namespace {

// Reinterprets `bytes` of a row as elements of `type`.
Tensor elements(const Tensor& bytes, at::ScalarType type) { return bytes.contiguous().view(type); }

// For rows of keys of heads of `head_size`: their first elements, and all their elements, in float32.
std::pair<Tensor, Tensor> from_tiles(const char* op, const KeysInTiles& tiles, const Tensor& rows,
                                     const c10::SymInt& head_size, at::ScalarType rope_type) {
  const int64_t rope_bytes = tiles.rope_size * static_cast<int64_t>(c10::elementSize(rope_type));
  const c10::SymInt size = head_size - tiles.rope_size;
  const c10::SymInt count = (size + tiles.tile_size - 1) / tiles.tile_size;
  const c10::SymInt scales_at = size + rope_bytes, scale_bytes = count * static_cast<int64_t>(sizeof(float));
  TORCH_CHECK(rows.sym_size(-1) == scales_at + scale_bytes, op, ": rows of keys have ", rows.sym_size(-1),
              " bytes, allowed are ", scales_at + scale_bytes, " for heads of ", head_size, ": ", size, ", ",
              rope_bytes, " for rope_head_dim, and ", scale_bytes, " for scales of tiles of ", tiles.tile_size);
  const Tensor scales = elements(rows.narrow_symint(-1, scales_at, scale_bytes), at::kFloat);
  const Tensor of_values = scales.repeat_interleave(tiles.tile_size, -1).narrow_symint(-1, 0, size);
  const Tensor first = wide(rows.narrow_symint(-1, 0, size)) * of_values;
  const Tensor rope = elements(rows.narrow_symint(-1, size, rope_bytes), rope_type);
  return {first, at::cat({first, wide(rope)}, -1)};
}

}  // namespace

AttentionPieces::Piece AttentionPieces::piece(int64_t index) const {
  Piece out{.query = pairs.of_queries(query, index),
            .key = pairs.of_keys(key, index),
            .value = pairs.of_keys(value, index),
            .weighting = {}};
  if (key_rope) out.key = at::cat({out.key, pairs.of_keys(*key_rope, index)}, -1);
  if (tiles) {
    const c10::SymInt head_size = query.sym_size(-1);
    out.value = from_tiles(op, *tiles, out.value, head_size, query.scalar_type()).first;
    out.key = from_tiles(op, *tiles, out.key, head_size, query.scalar_type()).second;
  }
  check_heads(op, out.query, out.key, out.value);
  out.weighting = weighting(index, out.query, out.key);
  return out;
}

Attention AttentionPieces::attend() const {
  std::vector<Tensor> results, maxima, sums;
  for (int64_t index = 0; index < pairs.count(); ++index) {
    const Piece one = piece(index);
    const Attention out = attend_with_statistics(one.query, one.key, one.value, one.weighting);
    results.push_back(out.result);
    maxima.push_back(out.max);
    sums.push_back(out.sum);
  }
  return {pairs.join_queries(results), pairs.join_queries(maxima), pairs.join_queries(sums)};
}

AttentionGradients AttentionPieces::gradients(const Attention& saved, const Tensor& gradient) const {
  std::vector<Tensor> queries, keys, values;
  for (int64_t index = 0; index < pairs.count(); ++index) {
    const Piece one = piece(index);
    const auto part = [&](const Tensor& tensor) { return pairs.of_queries(tensor, index); };
    const Attention of_piece{part(saved.result), part(saved.max), part(saved.sum)};
    const AttentionGradients out =
        attention_gradients(one.query, one.key, one.value, one.weighting, of_piece, part(gradient));
    queries.push_back(out.query);
    keys.push_back(out.key);
    values.push_back(out.value);
  }
  return {.query = pairs.join_queries(queries),
          .key = pairs.join_keys(keys),
          .value = pairs.join_keys(values),
          .scores = {},
          .sink = {}};
}

}  // namespace npugraph::npu_ops
