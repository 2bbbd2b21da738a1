// SPDX-License-Identifier: Apache-2.0
// Products of a few queries with keys, and of their probabilities with values, at the speed of memory: keys and values
// are read once, in place.
#pragma once

#include <cstdint>

#include <llvm/IR/IRBuilder.h>

#include "codegen/matmul/matvec.h"
#include "target/target.h"

namespace npugraph::codegen {

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
