// SPDX-License-Identifier: Apache-2.0
// Overflow of gradients.
#include "torch/npu_ops/families.h"
#include "torch/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {
namespace {

constexpr int64_t kStatusSize = 8;

Tensor alloc_float_status(const Tensor& input) { return input.new_zeros({kStatusSize}, at::kFloat); }

Tensor float_status(const Tensor& input, int64_t) { return alloc_float_status(input); }

bool amp_foreach_non_finite_check(at::TensorList grads) {
  for (const Tensor& grad : grads)
    if (!grad.isfinite().all().item<bool>()) return true;
  return false;
}

bool amp_foreach_non_finite_check_meta(at::TensorList) {
  TORCH_CHECK(false, "_amp_foreach_non_finite_check: its result depends on values, which tensors of meta do not have");
}

}  // namespace

void define_float_status(OperatorLibrary& library) {
  library.add({
      .schema = "npu::_amp_foreach_non_finite_check(Tensor[] scaled_grads) -> bool",
      .kernel = whole(&amp_foreach_non_finite_check, &amp_foreach_non_finite_check_meta),
      .definition = "Whether an element of a tensor is infinite or no number",
  });
  library.add({
      .schema = "npu::npu_alloc_float_status(Tensor input) -> Tensor",
      .kernel = parts(&alloc_float_status),
      .definition = "Eight zeros in float32, a status without overflow",
  });
  library.add({
      .schema = "npu::npu_clear_float_status(Tensor input, int mode=0) -> Tensor",
      .kernel = parts(&float_status),
      .definition = "A status without overflow",
  });
  library.add({
      .schema = "npu::npu_get_float_status(Tensor input, int mode=0) -> Tensor",
      .kernel = parts(&float_status),
      .definition =
          "A status without overflow: the host's arithmetic does not saturate, so that infinities say what happened",
  });
}

}  // namespace npugraph::npu_ops
