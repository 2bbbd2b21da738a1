// SPDX-License-Identifier: Apache-2.0
#include "backend/own_kernels/in_memory.h"

#include <algorithm>

#include <ATen/core/grad_mode.h>

namespace npugraph::own {

bool has_memory(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kStandsForAnother({c10::DispatchKey::Python, c10::DispatchKey::Functionalize});
  return tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.has_storage() &&
         !tensor.key_set().has_any(kStandsForAnother);
}

bool wants_gradient(std::initializer_list<const at::Tensor*> tensors) {
  return at::GradMode::is_enabled() &&
         std::ranges::any_of(tensors, [](const at::Tensor* tensor) { return tensor->requires_grad(); });
}

}  // namespace npugraph::own
