// SPDX-License-Identifier: Apache-2.0
// Arguments of the indexers of DeepSeek-V3.2, of attention to the keys that they choose, and of the gradients of both,
// by the names of all versions. The layout is "BSND" if a call names none.
#pragma once

#include "device/npu_ops/attention/attention_mask.h"
#include "device/npu_ops/attention/attention_pieces.h"
#include "device/npu_ops/framework/call_arguments.h"
#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// Keys that are chosen for each query.
// bool [batches, heads, rows, columns]: whether a column is in none of the blocks of `block_size` columns that
// `indices`, [batches, heads, rows, n], name. Indices out of range, such as -1, name no block.
Tensor not_chosen(const Tensor& indices, int64_t block_size, const c10::SymInt& columns);

// [batches, heads, rows, columns]: each of `values` [batches, heads, rows, n] is added to the column that
// `indices` name for it.
Tensor at_chosen(const Tensor& values, const Tensor& indices, const c10::SymInt& columns);

// Repeats each head of `tensor` for the `heads` that share it.
Tensor shared_by_heads(const Tensor& tensor, const c10::SymInt& heads);

Axes query_axes(const CallArguments& call);
// [batches, heads, rows, size] of a tensor in the layout of queries.
Tensor query_like(const CallArguments& call, const char* name, const Tensor& tensor);
StoredRows key_like(const CallArguments& call, const char* name, const Tensor& tensor);
SequencePairs pairs_of(const CallArguments& call, const Tensor& query, const StoredRows& key);

// sparse_mode 0: all keys; 3: keys up to the position of a query.
MaskRule sparse_rule_of(const CallArguments& call);
// bool [rows, columns]: what the rule hides. Undefined if it hides nothing.
Tensor hidden_by(const CallArguments& call, const Tensor& query, const Tensor& key);

// [batches, heads, rows, 1] <-> [batches, key heads, rows, heads of each], or without batches if rows are packed.
Tensor by_key_heads(const Tensor& statistics, Axes axes, const c10::SymInt& key_heads);
Tensor from_key_heads(const CallArguments& call, const char* name, const Tensor& statistics, const Tensor& query);

// Queries and keys with the further elements of their heads.
struct MainHeads {
  Tensor query;
  StoredRows key;
  std::optional<StoredRows> key_rope;
};
MainHeads main_heads(const CallArguments& call);

// Attention to the blocks of keys that sparse_indices name.
AttentionPieces chosen_attention(const CallArguments& call);

}  // namespace npugraph::npu_ops
