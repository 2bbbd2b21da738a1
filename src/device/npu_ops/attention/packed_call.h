// SPDX-License-Identifier: Apache-2.0
// Calls of the atb namespace as attention of packed queries, by the argument names of all its operators.
#pragma once

#include "device/npu_ops/attention/attention_layout.h"
#include "device/npu_ops/attention/packed_attention.h"
#include "device/npu_ops/framework/call_arguments.h"

namespace npugraph::npu_ops {

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
