// SPDX-License-Identifier: Apache-2.0
#include "backend/bridge/host_device.h"

namespace npugraph::bridge {

std::atomic<const HostDevice*> detail::host_device = nullptr;

void register_host_device(const HostDevice& device) noexcept {
  detail::host_device.store(&device, std::memory_order_release);
}

}  // namespace npugraph::bridge
