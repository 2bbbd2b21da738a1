// SPDX-License-Identifier: Apache-2.0
// Attention as a task: softmax(scale * Q K^T + mask) V. Only blocks of the scores are in memory, and sizes are known at
// run time.
//
// Buffers: queries [b, h, q, d], keys [b, g, k, d], values [b, g, k, e], the mask if there is one, the position if it
// is given (one i64), the result [b, h, q, e] and the logsumexp f32 [b, h, q] if it is asked for. h is a multiple of g.
// Without the dimension b there is one batch. The mask has two to four dimensions, each of which is that of the scores
// [b, h, q, k] or 1. The result is contiguous along e; all other strides are arbitrary. Keys and values are fast if
// they are contiguous along d and e.
//
// Keys that no query of a block sees by its position are not read, nor is their mask. Keys that the mask hides
// (-infinity or false) from all queries of a block are not read: their contents have no effect, even if they are not
// finite. The order of sums depends on sizes and on which keys are hidden, not on threads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "abi/task.h"
#include "codegen/task/planned_task.h"
#include "loop/task_parameters.h"
#include "target/target.h"
#include "tensor/dtype.h"

namespace npugraph::codegen {

// Where the operands of an attention lie.

// A tensor of four dimensions in memory; strides in bytes.
struct HeadsPlace {
  std::array<int64_t, 4> strides{};
  DType dtype = DType::kF32;

  int64_t offset(int64_t batch, int64_t head, int64_t row = 0, int64_t column = 0) const {
    return batch * strides[0] + head * strides[1] + row * strides[2] + column * strides[3];
  }
  int64_t row() const { return strides[2]; }
  int64_t column() const { return strides[3]; }
  bool is_dense() const { return column() == size_of(dtype); }
};

// Memory of the operands of a call. Null where the plan has none.
struct AttentionMemory {
  const char* q = nullptr;
  const char* k = nullptr;
  const char* v = nullptr;
  const char* mask = nullptr;
  char* out = nullptr;
  char* logsumexp = nullptr;
  float* parts = nullptr;  // results of chunks
  const int32_t* pages = nullptr;
  int64_t position = 0;  // of the first query among the keys
};

// Queries, keys, values and the result are of one type: f32, bf16 or f16. The mask is one of these, or kBool. Throws
// UserError if that cannot be generated.
ng_task make_attention(const loop::Attention& attention, DType dtype, const target::Target& target,
                       RowCount rows = RowCount::kFixed);

// Attention of sequences of different lengths. Their keys and values are rows of tensors, or lie in pages of a cache,
// as PagedAttention (Kwon et al., 2023) has them. Only the keys that queries see are read, each once for each block of
// rows.

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
