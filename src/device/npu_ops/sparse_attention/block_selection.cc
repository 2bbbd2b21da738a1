// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/sparse_attention/block_selection.h"

#include <limits>

#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {

using c10::SymInt;

BlockSelection::BlockSelection(const CallArguments& call, const SequencePairs& pairs)
    : compressed_(nsa_count(call, "compress_block_size")),
      stride_(nsa_count(call, "compress_stride")),
      selected_(nsa_count(call, "select_block_size")),
      count_(nsa_count(call, "select_block_count")),
      blocks_(call.integers({"actual_sel_seq_kvlen"})) {
  TORCH_CHECK(compressed_ % stride_ == 0 && selected_ % stride_ == 0, call.op(), ": compress_block_size is ",
              compressed_, " and select_block_size ", selected_, ", allowed are multiples of compress_stride, ",
              stride_);
  if (!blocks_) return;
  const bool has_ends = is_packed(nsa_axes(call)) && !call.optional_tensor({"block_table"}).defined();
  if (has_ends) blocks_ = from_ends(call.op(), "actual_sel_seq_kvlen", *blocks_);
  TORCH_CHECK(static_cast<int64_t>(blocks_->size()) == pairs.count(), call.op(), ": actual_sel_seq_kvlen has ",
              blocks_->size(), " elements, and there are ", pairs.count(), " sequences");
}

SymInt BlockSelection::blocks(int64_t index, const SymInt& compressed) const {
  if (blocks_) return blocks_->at(index);
  if (compressed == 0) return 0;
  return ((compressed - 1) * stride_ + compressed_ + selected_ - 1) / selected_;
}

// Equation 9: the importance of block j is the sum, over m below a and n below b, of the weights of compressed rows a *
// j + m - n, where a and b are the sizes of selected and compressed blocks in strides. Returns how often each
// compressed row counts for each block, [compressed, blocks].
Tensor BlockSelection::overlaps(const Tensor& like, const SymInt& compressed, const SymInt& blocks) const {
  const int64_t a = selected_ / stride_, b = compressed_ / stride_;
  const Tensor behind = count_up(like, blocks) * a - count_up(like, compressed).unsqueeze(1);
  const Tensor first = behind.clamp_min(0), last = (behind + (a - 1)).clamp_max(b - 1);  // n
  return (last - first + 1).clamp_min(0).to(like.scalar_type());
}

Tensor BlockSelection::select(const Tensor& weights, const SymInt& key_heads, const Tensor& dropped,
                              const SymInt& blocks) const {
  const Tensor by_key_heads = weights.unflatten_symint(1, {key_heads, -1}).sum(2);  // equation 10
  Tensor importance = by_key_heads.matmul(overlaps(by_key_heads, weights.sym_size(-1), blocks));
  if (dropped.defined()) importance = importance.masked_fill(dropped, -std::numeric_limits<double>::infinity());
  const auto [best, order] = importance.sort(/*stable=*/true, -1, /*descending=*/true);
  const Tensor found = order.masked_fill(best.isneginf(), -1);
  const Tensor enough = blocks < count_ ? longer(found, -1, count_ - blocks, -1) : found;
  return enough.narrow(-1, 0, count_).to(at::kInt);
}

}  // namespace npugraph::npu_ops
