// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/parts/factories.h"

#include "device/npu/facts.h"

namespace npugraph::npu_ops {

at::TensorOptions options_on_npu(const char* op, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                                 std::optional<at::Device> device, std::optional<bool> pin_memory) {
  const at::Device where = device.value_or(at::Device(npu::kNpu));
  TORCH_CHECK_NOT_IMPLEMENTED(where.type() == npu::kNpu || where.is_meta(), op, ": device is ", where,
                              ", allowed is npu");
  return at::TensorOptions().dtype(dtype).layout(layout).device(where).pinned_memory(pin_memory);
}

}  // namespace npugraph::npu_ops
