// SPDX-License-Identifier: Apache-2.0
// Attention of sequences of different lengths whose keys and values lie in pages of a cache, as PagedAttention (Kwon et
// al., 2023) has them. Only the pages that a sequence names are read, each key and value once for each block of rows.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "abi/task.h"
#include "codegen/attention/item.h"
#include "codegen/attention/plan.h"
#include "codegen/attention/run.h"
#include "loop/attention.h"
#include "target/target.h"

namespace npugraph::codegen {

struct PagedSequence {
  int64_t first_query = 0;  // row of its first query among those of all sequences
  int64_t queries = 0;
  int64_t keys = 0;
  const int32_t* pages = nullptr;  // the page of its first page_keys keys, of the next ones, and so on
};

// Places are those of one row: queries and results [row, head, element], keys and values [page, row, head, element].
// Strides in bytes, in the order of HeadsPlace: the first one is that of pages, 0 for queries and results.
struct PagedOperands {
  DType dtype = DType::kF32;  // of queries, keys, values and results: f32, bf16 or f16
  int64_t heads = 0;          // of keys and values
  int64_t group = 1;          // query heads for each
  int64_t key_size = 0;
  int64_t value_size = 0;
  int64_t page_keys = 0;
  HeadsPlace q, k, v, out, logsumexp;
  AttentionMemory memory;  // `logsumexp` may be null; `parts`, `pages` and `position` are not used
};

// One call: the last query of each sequence is at its last key. `attention` has no mask. Queries that see no keys give
// zeros.
class PagedAttention {
 public:
  PagedAttention(const loop::Attention& attention, const PagedOperands& operands,
                 std::span<const PagedSequence> sequences, const target::Target& target);

  int64_t workspace() const { return scratch_at_ + slots_ * item_bytes_; }
  // `workspace` is that many bytes, 64-byte aligned.
  void run(const ng_host& host, char* workspace) const;

 private:
  struct Piece {
    AttentionPlan plan;
    const AttentionCode* code;
    AttentionMemory memory;
    int64_t parts_at = 0;
  };

  Piece piece_of(const loop::Attention& attention, const PagedOperands& operands, const PagedSequence& sequence,
                 int64_t blocks, const target::Target& target);
  const AttentionCode* code_of(const AttentionPlan& plan, const target::Target& target);

  std::vector<Piece> pieces_;
  std::deque<std::pair<int64_t, AttentionCode>> codes_;  // by number of queries
  int64_t scratch_at_ = 0;
  int64_t item_bytes_ = 0;
  int64_t multiplications_ = 0;
  int slots_ = 1;
};

}  // namespace npugraph::codegen
