// SPDX-License-Identifier: Apache-2.0
// Operators of torch that call the kernels.
#include <npugraph/torch.h>
#include <torch/library.h>

namespace {

at::Tensor add_custom(const at::Tensor& x, const at::Tensor& y) {
  at::Tensor sum = at::empty_like(x);
  EXEC_NPU_CMD(aclnnAddCustom, x, y, sum);
  return sum;
}

void sin_cos(const at::Tensor& x, at::Tensor& sine, at::Tensor& cosine) { EXEC_NPU_CMD(aclnnSinCos, x, sine, cosine); }

TORCH_LIBRARY_FRAGMENT(extension_ops, m) {
  m.def("add_custom(Tensor x, Tensor y) -> Tensor");
  m.def("sin_cos(Tensor x, Tensor(a!) sine, Tensor(b!) cosine) -> ()");
}

TORCH_LIBRARY_IMPL(extension_ops, PrivateUse1, m) {
  m.impl("add_custom", &add_custom);
  m.impl("sin_cos", &sin_cos);
}

// EXEC_NPU_CMD does nothing on meta, so the same functions say what sizes and types the results have.
TORCH_LIBRARY_IMPL(extension_ops, Meta, m) {
  m.impl("add_custom", &add_custom);
  m.impl("sin_cos", &sin_cos);
}

}  // namespace
