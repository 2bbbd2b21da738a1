// SPDX-License-Identifier: Apache-2.0
// An extension for torch as its author wrote it for Ascend. The kernels are those of
// tests/unit/core/libraries/sample_kernels.cc.
#include <optional>
#include <string>
#include <tuple>

#include <torch/library.h>

#include "backend/bridge/torch.h"

namespace {

using npu_preparation = at_npu::native::OpPreparation;

at::Tensor scaled_add(const at::Tensor& x, const at::Tensor& y, double scale) {
  at::Tensor result = npu_preparation::apply_tensor_without_format(x);
  EXEC_NPU_CMD(aclnnScaledAdd, x, y, scale, result);
  return result;
}

void scale_(at::Tensor& x, const at::Scalar& factor) { EXEC_NPU_CMD(aclnnInplaceScale, x, factor); }

std::tuple<at::Tensor, at::Tensor> everything(const at::Tensor& x, const std::optional<at::Tensor>& y,
                                              at::TensorList list, int64_t number, at::IntArrayRef numbers,
                                              std::optional<double> fraction, bool flag, std::string text,
                                              at::ScalarType dtype) {
  at::Tensor sum = npu_preparation::apply_tensor_without_format(x, {1});
  at::Tensor count = npu_preparation::apply_tensor_without_format({1}, x.options().dtype(at::kLong));
  EXEC_NPU_CMD(aclnnEverything, x, y, list, number, numbers, fraction, flag, text.c_str(), dtype, sum, count);
  return {sum, count};
}

// Numbers of other types, and a kernel that is called by the name of its operator.
at::Tensor tripled(const at::Tensor& x) {
  at::Tensor result = at::empty_like(x);
  npugraph::run_kernel("test_ops::scaled_add", x, x, 2, result);
  return result;
}

at::Tensor fails_inside(const at::Tensor& x) {
  at::Tensor result = at::empty_like(x);
  EXEC_NPU_CMD(aclnnFailsInside, x, result);
  return result;
}

TORCH_LIBRARY_FRAGMENT(test_ascend, m) {
  m.def("scaled_add(Tensor x, Tensor y, float scale) -> Tensor");
  m.def("scale_(Tensor(a!) x, Scalar factor) -> ()");
  m.def(
      "everything(Tensor x, Tensor? y, Tensor[] list, int number, int[] numbers, float? fraction, bool flag, str text, "
      "ScalarType dtype) -> (Tensor, Tensor)");
  m.def("tripled(Tensor x) -> Tensor");
  m.def("fails_inside(Tensor x) -> Tensor");
}

void implement(torch::Library& m) {
  m.impl("scaled_add", &scaled_add);
  m.impl("scale_", &scale_);
  m.impl("everything", &everything);
  m.impl("tripled", &tripled);
  m.impl("fails_inside", &fails_inside);
}

TORCH_LIBRARY_IMPL(test_ascend, PrivateUse1, m) { implement(m); }
TORCH_LIBRARY_IMPL(test_ascend, CPU, m) { implement(m); }
TORCH_LIBRARY_IMPL(test_ascend, Meta, m) { implement(m); }

}  // namespace
