// SPDX-License-Identifier: Apache-2.0
// Operators that mark places in graphs. torch_npu tells torch.fx to keep them.
#include "torch/npu_ops/framework/checks.h"
#include "torch/npu_ops/tensors/families.h"

namespace npugraph::npu_ops {
namespace {

void super_kernel_scope(std::optional<c10::string_view> /*scope_name*/) {}

}  // namespace

void define_marks(Definitions& npu) {
  npu.mark("super_kernel_scope_begin", &super_kernel_scope,
           "Marks where a scope of fused kernels begins; the host fuses without it");
  npu.mark("super_kernel_scope_end", &super_kernel_scope, "Marks where a scope of fused kernels ends");
}

}  // namespace npugraph::npu_ops
