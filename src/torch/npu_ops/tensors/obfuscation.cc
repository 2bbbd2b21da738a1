// SPDX-License-Identifier: Apache-2.0
// Obfuscation of activations by a service outside the NPU. Its definition is not published.
#include "torch/npu/facts.h"
#include "torch/npu_ops/framework/checks.h"
#include "torch/npu_ops/tensors/families.h"

namespace npugraph::npu_ops {
namespace {

// The result stands for the file descriptor of the service.
Tensor initialize(int64_t, int64_t, int64_t, std::optional<at::ScalarType>, std::optional<int64_t>,
                  std::optional<int64_t>, std::optional<int64_t>, std::optional<double>) {
  return at::empty({1}, at::TensorOptions().dtype(at::kInt).device(npu::kNpu));
}

Tensor calculate(const Tensor&, const Tensor& x, const Tensor&, std::optional<double>) {
  return x.new_empty_symint(x.sym_sizes());
}

Tensor finalize(const Tensor& fd) { return fd.new_empty_symint(fd.sym_sizes()); }

}  // namespace

void define_obfuscation(Definitions& npu) {
  npu.shaped("obfuscation_initialize", &initialize);
  npu.shaped("obfuscation_calculate", &calculate);
  npu.shaped("obfuscation_finalize", &finalize);
}

}  // namespace npugraph::npu_ops
