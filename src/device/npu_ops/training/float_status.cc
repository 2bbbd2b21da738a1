// SPDX-License-Identifier: Apache-2.0
// Overflow of gradients.
#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"

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
      .definition = "Returns True if any element of the tensors in scaled_grads is infinite or NaN. Gradient scalers "
                    "of mixed precision use it to detect overflow. The result is a bool that depends on values, so "
                    "calls on meta tensors raise an error.",
  });
  library.add({
      .schema = "npu::npu_alloc_float_status(Tensor input) -> Tensor",
      .kernel = parts(&alloc_float_status),
      .definition = "Allocates a float status: eight zeros in float32, which say that nothing has overflowed. input "
                    "gives only the device.",
  });
  library.add({
      .schema = "npu::npu_clear_float_status(Tensor input, int mode=0) -> Tensor",
      .kernel = parts(&float_status),
      .definition = "Clears the float status: returns eight zeros in float32, as npu_alloc_float_status does. input "
                    "gives only the device and is not written; mode is ignored.",
  });
  library.add({
      .schema = "npu::npu_get_float_status(Tensor input, int mode=0) -> Tensor",
      .kernel = parts(&float_status),
      .definition = "Reads the float status: always returns eight zeros in float32, which say that nothing has "
                    "overflowed. Arithmetic on the host does not saturate, so that an overflow shows as infinities in "
                    "the values themselves. input gives only the device; mode is ignored.",
  });
}

}  // namespace npugraph::npu_ops
