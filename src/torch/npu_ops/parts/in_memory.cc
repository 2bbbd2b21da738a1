// SPDX-License-Identifier: Apache-2.0
#include "torch/npu_ops/parts/in_memory.h"

#include "target/target.h"

namespace npugraph::npu_ops {

bool has_memory(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kStandsForAnother({c10::DispatchKey::Python, c10::DispatchKey::Functionalize});
  return tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.has_storage() &&
         !tensor.key_set().has_any(kStandsForAnother);
}

std::optional<DType> generated_dtype(at::ScalarType type) {
  if (type == at::kFloat) return DType::kF32;
  if (type == at::kBFloat16) return DType::kBF16;
  if (type == at::kHalf && target::host_target().f16c) return DType::kF16;
  return std::nullopt;
}

}  // namespace npugraph::npu_ops
