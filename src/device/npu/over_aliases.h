// SPDX-License-Identifier: Apache-2.0
// A kernel over CPU aliases of npu tensors does not see on which device these are. This tells it.
#pragma once

#include <optional>
#include <utility>

#include "device/npu/call_record.h"

namespace npugraph::npu {

// While alive, the calling thread runs such a kernel, for tensors of `device`.
class OverAliases {
 public:
  explicit OverAliases(c10::DeviceIndex device) : outer_(std::exchange(this_call.alias_device, device)) {}
  ~OverAliases() { this_call.alias_device = outer_; }
  OverAliases(const OverAliases&) = delete;
  OverAliases& operator=(const OverAliases&) = delete;

 private:
  c10::DeviceIndex outer_;
};

// Nullopt if the calling thread runs no such kernel.
inline std::optional<c10::DeviceIndex> device_of_aliases() noexcept {
  return this_call.alias_device < 0 ? std::nullopt : std::make_optional(this_call.alias_device);
}

}  // namespace npugraph::npu
