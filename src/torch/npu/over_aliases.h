// SPDX-License-Identifier: Apache-2.0
// A kernel over CPU aliases of npu tensors does not see on which device these are. This tells it.
#pragma once

#include <optional>

#include <c10/core/Device.h>

#include "torch/npu/export.h"

namespace npugraph::npu {

// While alive, the calling thread runs such a kernel, for tensors of `device`.
class OverAliases {
 public:
  NPUGRAPH_EXPORT explicit OverAliases(c10::DeviceIndex device);
  NPUGRAPH_EXPORT ~OverAliases();
  OverAliases(const OverAliases&) = delete;
  OverAliases& operator=(const OverAliases&) = delete;

 private:
  c10::DeviceIndex outer_;
};

// Nullopt if the calling thread runs no such kernel.
NPUGRAPH_EXPORT std::optional<c10::DeviceIndex> device_of_aliases() noexcept;

}  // namespace npugraph::npu
