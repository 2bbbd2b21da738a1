// SPDX-License-Identifier: Apache-2.0
#include "torch/bridge/own_kernels.h"

#include "torch/npu/int8_product.h"

namespace npugraph::bridge {
namespace {

using torch::jit::Stack;

void int_mm(Stack& stack) {
  const at::Tensor mat2 = torch::jit::pop(stack).toTensor(), self = torch::jit::pop(stack).toTensor();
  stack.emplace_back(npu::int8_product(self, mat2));
}

void int_mm_out(Stack& stack) {
  at::Tensor out = torch::jit::pop(stack).toTensor();
  const at::Tensor mat2 = torch::jit::pop(stack).toTensor(), self = torch::jit::pop(stack).toTensor();
  stack.emplace_back(npu::int8_product_out(out, self, mat2));
}

}  // namespace

StackKernel own_kernel(const c10::OperatorName& name) {
  if (name.name != "aten::_int_mm") return nullptr;
  return name.overload_name.empty() ? &int_mm : name.overload_name == "out" ? &int_mm_out : nullptr;
}

}  // namespace npugraph::bridge
