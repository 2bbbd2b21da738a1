// SPDX-License-Identifier: Apache-2.0
// Arguments of the operators of Native Sparse Attention (Yuan et al., 2025), and the blocks that it selects: packed
// rows, in inference also batches and pages. Without lengths, packed keys are one sequence, and packed queries are as
// many sequences of one length as there are of keys.
#pragma once

#include "device/npu_ops/attention/attention_pieces.h"
#include "device/npu_ops/framework/call_arguments.h"

namespace npugraph::npu_ops {

// The layout of queries and keys: `layout`, or TND if the call has none.
Axes nsa_axes(const CallArguments& call);

// Values for each row of each key head, in the layout of queries with a dimension of heads, as [batches, key
// heads, rows, n], and back.
Tensor nsa_choices(const CallArguments& call, const Tensor& tensor);
Tensor from_nsa_choices(const CallArguments& call, const Tensor& tensor);
// Attention of query, key and value, with the scale of the call. `dropped` returns the keys that are
// dropped in each piece.
using NsaDropped =
    std::function<Tensor(const SequencePairs& pairs, int64_t index, const Tensor& query, const Tensor& key)>;
AttentionPieces nsa_pieces(const CallArguments& call, NsaDropped dropped);

// Converts [batches, N, rows, 1] to [T, N, 8] or [batches, N, rows, 8].
Tensor statistics_in_copies(const Tensor& statistic, Axes axes);

// An integer argument, which must be 1 or more.
int64_t nsa_count(const CallArguments& call, const char* name);

// The blocks of keys that compressed attention selects for each query (Native Sparse Attention, Yuan et
// al., 2025, section 3.3.2).
class BlockSelection {
 public:
  BlockSelection(const CallArguments& call, const SequencePairs& pairs);

  // Number of blocks that are selected from in sequence `index`, which has `compressed` rows: as the call says, or
  // enough for all rows that were compressed.
  c10::SymInt blocks(int64_t index, const c10::SymInt& compressed) const;

  // The most important blocks by weights [batches, heads, rows, compressed], as int32 [batches, key heads, rows,
  // select_block_count]: of equal ones the first, and -1 if there are fewer. Those that `dropped` is true for, which
  // may be undefined, are not selected.
  Tensor select(const Tensor& weights, const c10::SymInt& key_heads, const Tensor& dropped,
                const c10::SymInt& blocks) const;

 private:
  Tensor overlaps(const Tensor& like, const c10::SymInt& compressed, const c10::SymInt& blocks) const;

  int64_t compressed_, stride_, selected_, count_;  // sizes in rows before compression
  GivenLengths blocks_;
};

}  // namespace npugraph::npu_ops
