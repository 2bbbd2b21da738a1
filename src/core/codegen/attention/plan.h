// SPDX-License-Identifier: Apache-2.0
// The plan by which an attention is computed. It depends on sizes, strides and the target alone.
#pragma once

#include <array>
#include <optional>

#include "codegen/attention/attention.h"
#include "codegen/matmul/tile.h"
#include "codegen/task/work_items.h"

namespace npugraph::codegen {

// A row is a query of one of the heads that read the same keys. The rows of a head follow each other.
struct AttentionPlan {
  int64_t batches = 1;
  int64_t heads = 1;  // of keys and values
  int64_t group = 1;  // query heads for each
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t key_size = 0;
  int64_t value_size = 0;
  HeadsPlace q, k, v, mask, out, logsumexp;
  // Set if keys and values are first copied to dense rows in the workspace, because rows that are far apart may evict
  // each other from the cache: the places of the operands. `k` and `v` are then the places of the copies.
  std::optional<HeadsPlace> given_k, given_v;
  // Keys of a page, if keys and values lie in pages: the first strides of `k` and `v` are then those of pages.
  int64_t page_keys = 0;
  int64_t beside = 0;     // blocks of other attentions that run at the same time
  bool in_place = false;  // keys and values are never copied to the workspace
  float scale = 1;
  // A query at position p sees the keys from p - before to p + after. No limit if not set.
  std::optional<int64_t> before;
  std::optional<int64_t> after;
  loop::AttentionPosition position = loop::AttentionPosition::kStart;
  bool masked = false;
  bool with_logsumexp = false;
  float of_empty = 0;  // result of a query that sees no keys

  bool by_rows = false;  // few rows: products of matrices with vectors; otherwise panels
  bool pairs = false;    // bf16 is multiplied without conversion
  TileShape shape;
  int64_t value_rows = 0;  // most rows of a tile of values, except on AMX
  int64_t block_keys = 0;  // of a panel
  int64_t block_rows = 0;  // of a work item
  int64_t chunk_keys = 0;  // most keys of a work item; the results of chunks are combined at the end
  int64_t chunks = 1;      // most chunks
  int64_t least_keys = 1;  // of a chunk, if it is made only to have more work items

  int64_t rows() const { return group * queries; }
  int64_t row_blocks() const { return block_rows == 0 ? 0 : (rows() + block_rows - 1) / block_rows; }
  int64_t blocks() const { return batches * heads * row_blocks(); }
  int64_t items() const { return blocks() * chunks; }  // at most
  // Keys of a work item if queries see `seen` keys: at most chunk_keys, and so many that there are at most `chunks`
  // chunks.
  int64_t keys_of_chunk(int64_t seen) const;
  // Steps of 4 bytes in a product along the elements of a key.
  int64_t steps() const { return pairs ? (key_size + 1) / 2 : key_size; }
  // Elements of a value, rounded up to whole tiles on AMX.
  int64_t value_columns() const {
    return shape.amx ? (value_size + shape.rows - 1) / shape.rows * shape.rows : value_size;
  }
  TileKind kind() const { return pairs ? TileKind::kBf16Pairs : TileKind::kF32; }
  DType multiplied() const { return pairs ? DType::kBF16 : DType::kF32; }
  // Whether tiles read keys where they lie, if there are enough of them for a tile.
  bool keys_in_place() const { return k.is_dense() && k.dtype == multiplied() && (!pairs || key_size % 2 == 0); }

  int64_t item_bytes = 0;  // scratch of each item that runs
  int slots = 1;           // items that run at the same time

  // Whether lanes of panels may have limits. If the scale is negative, all of them have.
  bool may_limit() const { return after || scale < 0; }
  // Whether something is added to scores of panels.
  bool adds_mask() const { return masked || before; }

  // Floats that a chunk leaves for each row: its sums with values, its largest score and its sum of probabilities.
  int64_t part_floats() const { return value_size + 2; }
  int64_t part_bytes() const { return chunks == 1 ? 0 : (items() * block_rows * part_floats() * 4 + 63) / 64 * 64; }
  int64_t bytes_of_keys() const { return batches * heads * keys * key_size * size_of(k.dtype); }
  int64_t bytes_of_values() const { return batches * heads * keys * value_size * size_of(v.dtype); }
  // Offsets of the copies of keys, of those of values and of scratch in the workspace. The results of chunks are in
  // front.
  int64_t keys_at() const { return part_bytes(); }
  int64_t values_at() const { return keys_at() + (given_k ? round_up(bytes_of_keys(), 64) : 0); }
  int64_t scratch_at() const { return values_at() + (given_v ? round_up(bytes_of_values(), 64) : 0); }
  int64_t workspace() const { return scratch_at() + slots * item_bytes; }
};

// Bytes of scratch of an item, for either form.
int64_t bytes_of_rows(const AttentionPlan& plan);
int64_t bytes_of_panels(const AttentionPlan& plan);

// Most panels that share the keys they read.
inline constexpr int64_t kMostPanels = 4;

size_t number_of_buffers(const loop::Attention& attention);

// Decides how a plan with sizes and places of its operands is computed.
void complete_plan(const loop::Attention& attention, DType dtype, const target::Target& target, AttentionPlan& plan);

// Returns nullopt if the buffers do not fit each other or the type.
std::optional<AttentionPlan> plan_attention(const loop::Attention& attention, DType dtype, const target::Target& target,
                                            const ng_call& call);

}  // namespace npugraph::codegen
