// SPDX-License-Identifier: Apache-2.0
// A kernel over CPU tensors that stand for tensors of npu does not see of which device these are. This tells it.
#pragma once

#include <optional>

#include <c10/core/Device.h>

namespace npugraph::npu {

// While alive, the calling thread runs such a kernel, for tensors of `device`.
class OverAliases {
 public:
  explicit OverAliases(c10::DeviceIndex device);
  ~OverAliases();
  OverAliases(const OverAliases&) = delete;
  OverAliases& operator=(const OverAliases&) = delete;

 private:
  c10::DeviceIndex outer_;
};

// Nothing where the calling thread runs no such kernel.
std::optional<c10::DeviceIndex> device_of_aliases() noexcept;

}  // namespace npugraph::npu
