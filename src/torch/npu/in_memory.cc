// SPDX-License-Identifier: Apache-2.0
#include "torch/npu_ops/parts/in_memory.h"

namespace npugraph::npu_ops {

bool has_memory(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kStandsForAnother({c10::DispatchKey::Python, c10::DispatchKey::Functionalize});
  return tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.has_storage() &&
         !tensor.key_set().has_any(kStandsForAnother);
}

}  // namespace npugraph::npu_ops
