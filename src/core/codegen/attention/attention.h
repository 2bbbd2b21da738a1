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

#include "abi/task.h"
#include "codegen/task/row_count.h"
#include "loop/attention.h"
#include "target/target.h"
#include "tensor/dtype.h"

namespace npugraph::codegen {

// Queries, keys, values and the result are of one type: f32, bf16 or f16. The mask is one of these, or kBool. Throws
// UserError if that cannot be generated.
ng_task make_attention(const loop::Attention& attention, DType dtype, const target::Target& target,
                       RowCount rows = RowCount::kFixed);

}  // namespace npugraph::codegen
