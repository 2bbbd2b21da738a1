// SPDX-License-Identifier: Apache-2.0
// Attention of sequences of different lengths. Their keys and values are rows of tensors, or lie in pages of a cache,
// as PagedAttention (Kwon et al., 2023) has them. Only the keys that queries see are read, each once for each block of
// rows.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "abi/task.h"
#include "codegen/attention/memory.h"
#include "loop/attention.h"
#include "target/target.h"

namespace npugraph::codegen {

struct VarlenSequence {
  int64_t query_batch = 0;
  int64_t first_query = 0;  // row of the batch
  int64_t queries = 0;
  int64_t key_batch = 0;
  int64_t first_key = 0;
  int64_t keys = 0;
  // If keys lie in pages: the page of the first page_keys keys, of the next ones, and so on. They take the place of
  // `key_batch` and `first_key`.
  const int32_t* pages = nullptr;
};

// Places of tensors [batch or page, head, row, element].
struct VarlenOperands {
  DType dtype = DType::kF32;  // of queries, keys, values and results: f32, bf16 or f16
  int64_t heads = 0;          // of keys and values
  int64_t group = 1;          // query heads for each
  int64_t key_size = 0;
  int64_t value_size = 0;
  int64_t page_keys = 0;  // 0: keys do not lie in pages
  HeadsPlace q, k, v, out, logsumexp;
  AttentionMemory memory;  // `logsumexp` may be null; `parts`, `pages` and `position` are not used
};

// One call. `attention` has no mask, and its position is kStart or kEnd. Queries that see no keys give zeros.
class VarlenAttention {
 public:
  VarlenAttention(const loop::Attention& attention, const VarlenOperands& operands,
                  std::span<const VarlenSequence> sequences, const target::Target& target);
  ~VarlenAttention();

  int64_t workspace() const;
  // `workspace` is that many bytes, 64-byte aligned.
  void run(const ng_host& host, char* workspace) const;

 private:
  class Pieces;
  std::unique_ptr<const Pieces> pieces_;
};

}  // namespace npugraph::codegen
