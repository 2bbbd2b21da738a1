// SPDX-License-Identifier: Apache-2.0
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "device/eager/register.h"

namespace npugraph::eager {
namespace {

at::Tensor refuse_binary_cross_entropy(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                                       int64_t) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe under autocast: in lower "
              "precision their logarithms overflow. torch.nn.functional.binary_cross_entropy_with_logits and "
              "torch.nn.BCEWithLogitsLoss take what comes before the sigmoid, and are safe.");
}

void register_lists(torch::Library& m) {
  using namespace at;  // for the names in torch's lists
#define NPU_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(NPU_LOWER)
#undef NPU_LOWER
#define NPU_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(NPU_FP32)
#undef NPU_FP32
#define NPU_SET_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_FP32_SET_OPT_DTYPE(NPU_SET_DTYPE)
#undef NPU_SET_DTYPE
#define NPU_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_PROMOTE(NPU_PROMOTE)
#undef NPU_PROMOTE
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  m.impl("binary_cross_entropy", &refuse_binary_cross_entropy);
}

}  // namespace

void register_autocast() {
  static torch::Library all(torch::Library::IMPL, "_", c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
  all.fallback(torch::CppFunction::makeFallthrough());
  static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
  register_lists(aten);
}

}  // namespace npugraph::eager
