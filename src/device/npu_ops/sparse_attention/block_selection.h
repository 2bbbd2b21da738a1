// SPDX-License-Identifier: Apache-2.0
// The blocks of keys that compressed attention selects for each query (Native Sparse Attention, Yuan et
// al., 2025, section 3.3.2).
#pragma once

#include "device/npu_ops/sparse_attention/nsa_call.h"

namespace npugraph::npu_ops {

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
