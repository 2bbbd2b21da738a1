// SPDX-License-Identifier: Apache-2.0
// Attention of packed queries, sequence by sequence, to packed rows or to pages of a cache.
#pragma once

#include <optional>
#include <vector>

#include "device/npu_ops/attention/attention_core.h"
#include "device/npu_ops/attention/attention_layout.h"
#include "device/npu_ops/attention/stored_rows.h"
#include "device/npu_ops/framework/call_arguments.h"

namespace npugraph::npu_ops {

// Columns that rows do not see. Elements of a mask above 0 drop a column; the others are added to scores. The mask has
// a row for each query of all sequences, or one for each position of a sequence, whose queries are its last positions.
// If it is smaller than a sequence, it is a sample of the triangle that drops the columns after a position.
struct PackedMask {
  Tensor mask;
  bool by_position = false;  // rows are positions, even if there are as many as queries
  bool causal = false;       // drops the columns after a position, without a mask
  Tensor slopes;             // [heads]: slope * distance is subtracted from scores (ALiBi, Press et al., 2022)
};

struct PackedCall {
  Tensor query;  // [1, heads, rows, size]
  std::vector<int64_t> query_lengths;
  StoredRows key, value;
  std::optional<StoredRows> key_rope;  // further elements of heads of key
  KeyRows keys;
  double scale = 1;
  PackedMask mask;
};

// [T, heads, size], and, if wanted, log(sum(exp(scores))) in float32, [T, heads, 1].
struct PackedResult {
  Tensor result, lse;
};
PackedResult attend_packed(const char* op, const PackedCall& call, bool wants_lse);

// Calls of the atb namespace as attention of packed queries, by the argument names of all its operators.
int64_t heads_of(const CallArguments& call);

// [T, heads, size] or [T, heads * size] -> [1, heads, T, size]
Tensor packed_rows(const CallArguments& call, const char* name, const Tensor& tensor, int64_t heads);
// The argument `name` with packed rows of keys or values.
StoredRows packed_keys(const CallArguments& call, const char* name);

std::vector<int64_t> lengths_of(const CallArguments& call, CallArguments::Names names);

// Whether a cache for heads of this size has pages of (heads * size / n, block size, n), the layout NZ, and not of
// (block size, heads, size).
bool is_in_pieces(const CallArguments& call, const char* name, const Tensor& cache, const c10::SymInt& size);
// With `first`, only that many elements of each head.
StoredRows cache_of(const CallArguments& call, const char* name, const Tensor& cache, bool in_pieces,
                    std::optional<int64_t> first = std::nullopt);

// Attention to a cache. `query_lengths` is nullopt if each sequence has one query.
PackedCall cache_call(const CallArguments& call, const Tensor& query, const GivenLengths& query_lengths,
                      const StoredRows& key, const StoredRows& value);
// The same for the arguments that are caches of keys and values.
PackedCall cache_call(const CallArguments& call);
// Attention to packed keys and values.
PackedCall rows_call(const CallArguments& call, const Tensor& query, const std::vector<int64_t>& query_lengths,
                     const std::vector<int64_t>& key_lengths, const StoredRows& key, const StoredRows& value);

}  // namespace npugraph::npu_ops
