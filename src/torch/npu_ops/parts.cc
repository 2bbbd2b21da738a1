// SPDX-License-Identifier: Apache-2.0
#include "torch/npu_ops/parts.h"

#include <vector>

namespace npugraph::npu_ops {

at::Tensor count_up(const at::Tensor& like, const c10::SymInt& n) {
  return at::arange(at::Scalar(n), like.options().dtype(at::kLong));
}

at::Tensor longer(const at::Tensor& x, int64_t dim, const c10::SymInt& count, const at::Scalar& value) {
  std::vector<c10::SymInt> sizes = x.sym_sizes().vec();
  sizes[at::maybe_wrap_dim(dim, x.dim())] = count;
  return at::cat({x, x.new_full_symint(sizes, value)}, dim);
}

}  // namespace npugraph::npu_ops
