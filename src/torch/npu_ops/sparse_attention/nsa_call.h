// SPDX-License-Identifier: Apache-2.0
// What operators of Native Sparse Attention (Yuan et al., 2025) are given: packed rows, or in inference also rows of batches and
// pages. Without lengths, packed rows are one sequence, and in inference as many of one length as there are of keys.
#pragma once

#include "torch/npu_ops/attention/attention_pieces.h"
#include "torch/npu_ops/framework/call_arguments.h"

namespace npugraph::npu_ops {

// Rows of queries and keys: of `layout`, or TND where calls have none.
Axes nsa_axes(const CallArguments& call);

// [batches, key heads, rows, n] of what is known of each row of each key head, in the layout of queries but for heads in
// one dimension.
Tensor nsa_choices(const CallArguments& call, const Tensor& tensor);
Tensor from_nsa_choices(const CallArguments& call, const Tensor& tensor);
// Of query, key and value, with the scale of the call, and keys dropped as `dropped` says of each piece.
using NsaDropped =
    std::function<Tensor(const SequencePairs& pairs, int64_t index, const Tensor& query, const Tensor& key)>;
AttentionPieces nsa_pieces(const CallArguments& call, NsaDropped dropped);

// [T, N, 8] or [batches, N, rows, 8] of [batches, N, rows, 1].
Tensor statistics_in_copies(const Tensor& statistic, Axes axes);

// An argument that is a count: 1 and more.
int64_t nsa_count(const CallArguments& call, const char* name);

}  // namespace npugraph::npu_ops
