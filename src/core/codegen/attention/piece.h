// SPDX-License-Identifier: Apache-2.0
// The parts of generated attention as the driver calls them, except the tiles of matrix products.
//
// A panel holds a block of scores as the tiles of products leave them: a row for each key, with a lane for each of some
// rows of queries, so that maxima and sums along keys stay in registers. Probabilities replace the scores in the panel
// and are multiplied with values. The sums are a panel too, with a row for each element of a value.
#pragma once

#include <cstdint>

#include <llvm/IR/IRBuilder.h>

#include "codegen/matmul/matvec.h"
#include "codegen/matmul/tile.h"
#include "target/target.h"

namespace npugraph::codegen {

struct PanelKind {
  int vectors = 2;       // in a row of the panel
  bool pairs = false;    // probabilities become pairs of bf16, of an even key and the next one
  bool limited = false;  // each lane sees only the keys below its limit
  bool masked = false;   // a panel of mask values is added to the scores
};

// One step of the softmax along keys, over the panel of keys [first_key, first_key + keys). `state` is a row of the
// largest scores and one of the sums of probabilities so far (-infinity and 0 at first). `sums` holds the sums with
// values so far, in `sum_rows` rows; they are scaled to the new maximum. Unless scores are limited or masked, `scale`
// is at least 0.
using SoftmaxPanelFunction = void(float* scores, int64_t keys, int64_t first_key, const int32_t* limits,
                                  const float* mask, float scale, float* state, float* sums, int64_t sum_rows);

// sums[r][lane] (+)= sum over steps s of values[s][r] * panel[s][lane] for a few rows r. Elements of 4 bytes: f32 or
// pairs of bf16. Strides in bytes.
using ValueTileFunction = void(const void* panel, const void* values, int64_t step_stride, int64_t steps, float* sums,
                               int64_t accumulate);

// The softmax of one row of scores, in place, without the division by the sum of probabilities. Scores and mask must be
// readable up to a whole vector, and the scores behind the last key become zeros. `state` becomes the largest score and
// the sum of probabilities.
using SoftmaxRowFunction = void(float* scores, int64_t keys, const float* mask, float scale, float* state);

// Converts a contiguous row of a mask to the numbers that are added to scores. The first word of `effect` becomes 0 if
// the row hides all keys, and the second one if it hides none and adds nothing.
using MaskRowFunction = void(const void* mask, int64_t keys, float* to, uint32_t* effect);

llvm::FunctionType* softmax_panel_type(llvm::LLVMContext& context);
llvm::FunctionType* value_tile_type(llvm::LLVMContext& context);
llvm::FunctionType* softmax_row_type(llvm::LLVMContext& context);
llvm::FunctionType* mask_row_type(llvm::LLVMContext& context);

// Fill in the body of a function of that type.
void emit_softmax_panel(llvm::Function* function, const PanelKind& kind, const target::Target& target);
void emit_value_tile(llvm::Function* function, int rows, int vectors, bool pairs, const target::Target& target);
void emit_softmax_row(llvm::Function* function, bool masked, const target::Target& target);
void emit_mask_row(llvm::Function* function, DType mask, const target::Target& target);

// Machine code of these: made on first use, shared by the process. Thread-safe.
SoftmaxPanelFunction* softmax_panel_code(const target::Target& target, const PanelKind& kind);
ValueTileFunction* value_tile_code(const target::Target& target, int rows, int vectors, bool pairs);
SoftmaxRowFunction* softmax_row_code(const target::Target& target, bool masked);
MaskRowFunction* mask_row_code(const target::Target& target, DType mask);

// Products of a few queries with keys, and of their probabilities with values, at the speed of memory: keys and values
// are read once, in place.

// scores[q * score_stride + key] = sum over i of keys[key][i] * queries[q][i] for at least score_keys() keys; both
// contiguous along i. Queries are f32 or, for kBf16Dot, bf16. Strides in bytes, but score_stride in elements.
using ScoresFunction = void(const void* keys, int64_t key_stride, int64_t count, const void* queries,
                            int64_t query_stride, int64_t size, float* scores, int64_t score_stride);

// Fewest keys of a ScoresFunction.
inline int64_t score_keys(const target::Target& target) { return target.lanes(DType::kF32); }

// sums[q * sum_stride + i] += sum over keys of values[key][i] * probabilities[q][key]; values are contiguous along i.
// Not for kBf16Dot. Strides in bytes, but sum_stride in elements.
using ValuesFunction = void(const void* values, int64_t value_stride, int64_t size, const float* probabilities,
                            int64_t probability_stride, int64_t keys, float* sums, int64_t sum_stride);

// Machine code for `queries` queries, at most kMostVectors. Made on first use, shared by the process. Thread-safe.
ScoresFunction* scores_code(const target::Target& target, MatvecKind kind, int queries);
ValuesFunction* values_code(const target::Target& target, MatvecKind kind, int queries);

}  // namespace npugraph::codegen
