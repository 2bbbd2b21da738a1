// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/parts/random_numbers.h"

#include "device/npu/generator.h"

namespace npugraph::npu_ops {

// npu tensors and tensors of graphs use the generator of their device by default, so no generator is passed for them.

at::Tensor uniform(c10::SymIntArrayRef sizes, const at::TensorOptions& options) {
  const auto generator = npu::generator_of_kernel();
  return generator ? at::rand_symint(sizes, generator, options) : at::rand_symint(sizes, options);
}

at::Tensor random_integers(int64_t low, int64_t high, c10::SymIntArrayRef sizes, const at::TensorOptions& options) {
  const auto type = options.dtype(at::kLong);
  const auto generator = npu::generator_of_kernel();
  return generator ? at::randint_symint(low, high, sizes, generator, type) : at::randint_symint(low, high, sizes, type);
}

}  // namespace npugraph::npu_ops
