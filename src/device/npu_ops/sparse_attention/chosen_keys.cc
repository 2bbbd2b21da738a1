// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/sparse_attention/chosen_keys.h"

#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

// `indices` of `count` places plus 1. Those out of range become 0 or count + 1.
Tensor places(const Tensor& indices, const c10::SymInt& count) {
  return indices.to(at::kLong).clamp_min(-1).clamp_max(at::Scalar(count)) + 1;
}

Tensor of_places(const Tensor& tensor, const c10::SymInt& count) { return tensor.narrow_symint(-1, 1, count); }

std::vector<c10::SymInt> sizes_for(const Tensor& indices, const c10::SymInt& count) {
  std::vector<c10::SymInt> out = indices.sym_sizes().vec();
  out.back() = count + 2;
  return out;
}

}  // namespace

Tensor not_chosen(const Tensor& indices, int64_t block_size, const c10::SymInt& columns) {
  const c10::SymInt blocks = (columns + block_size - 1) / block_size;
  const Tensor all = at::ones_symint(sizes_for(indices, blocks), indices.options().dtype(at::kBool));
  const Tensor by_block = of_places(all.scatter(-1, places(indices, blocks), 0), blocks);
  return block_size == 1 ? by_block : by_block.index_select(-1, count_up(indices, columns).div(block_size, "floor"));
}

Tensor at_chosen(const Tensor& values, const Tensor& indices, const c10::SymInt& columns) {
  const Tensor none = at::zeros_symint(sizes_for(indices, columns), values.options());
  return of_places(none.scatter_add(-1, places(indices, columns), values), columns);
}

Tensor shared_by_heads(const Tensor& tensor, const c10::SymInt& heads) {
  const c10::SymInt own = tensor.sym_size(1);
  return own == 1 || own == heads ? tensor : tensor.repeat_interleave_symint(heads / own, 1);
}

}  // namespace npugraph::npu_ops
