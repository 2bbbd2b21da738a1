// SPDX-License-Identifier: Apache-2.0
// Activations and gated units, computed in float32.
#include "torch/npu_ops/checks.h"
#include "torch/npu_ops/families.h"

namespace npugraph::npu_ops {
namespace {

Tensor swiglu(const Tensor& input, int64_t dim) {
  check_floating("npu_swiglu", "input", input);
  check_dims("npu_swiglu", "input", input, 1, 8);
  TORCH_CHECK(input.sym_size(dim) % 2 == 0, "npu_swiglu: dimension ", dim, " of input has size ", input.sym_size(dim),
              ", which has no two halves");
  const auto halves = wide(input).chunk(2, dim);
  return (at::silu(halves[0]) * halves[1]).to(input.scalar_type());
}

}  // namespace

void define_activations(Definitions& npu) {
  npu.composed("npu_swiglu", &swiglu, "silu(first half along dim) * second half (Shazeer, 2020)");
}

}  // namespace npugraph::npu_ops
