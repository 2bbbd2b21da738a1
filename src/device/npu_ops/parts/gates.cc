// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/parts/gates.h"

namespace npugraph::npu_ops {

Tensor gated(const char* op, const Tensor& x, int64_t dim, const Gate& gate) {
  TORCH_CHECK(gate.mode >= 0 && gate.mode <= 2, op, ": swiglu_mode is ", gate.mode, ", allowed are 0, 1 and 2");
  const c10::SymInt size = x.sym_size(dim);
  TORCH_CHECK(size % 2 == 0, op, ": dimension ", dim, " of x has size ", size, ", which has no two halves");
  if (gate.mode == 1) {
    const Tensor pairs = x.unflatten_symint(dim, {size / 2, 2});
    const int64_t inner = at::maybe_wrap_dim(dim, x.dim()) + 1;
    const Tensor a = pairs.select(inner, 0).clamp_max(gate.limit), b = pairs.select(inner, 1);
    return a * at::sigmoid(gate.alpha * a) * (b.clamp(-gate.limit, gate.limit) + gate.bias);
  }
  const auto halves = x.chunk(2, dim);
  const Tensor& a = halves[gate.left ? 0 : 1];
  const Tensor& b = halves[gate.left ? 1 : 0];
  if (gate.mode == 0) return at::silu(a) * b;
  const Tensor cut = a.clamp_max(gate.limit);
  return cut * at::sigmoid(gate.alpha * cut) * (b.clamp(-gate.limit, gate.limit) + gate.bias);
}

}  // namespace npugraph::npu_ops
