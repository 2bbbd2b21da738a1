// SPDX-License-Identifier: Apache-2.0
// How much of the host's memory the devices may take. Thread-safe.
//
// Where NPUGRAPH_DEVICE_MEMORY gives devices a size, that holds, and nothing here asks the host.
#pragma once

#include <cstdint>

namespace npugraph::npu {

// Bytes of each device. Without the variable what the host had left at the first call, less a reserve for the process itself:
// all devices are this host, so each may have all of it, and all of them together no more.
int64_t device_bytes();
bool is_host_limited();

// Whether the host has `bytes` more. Asks it not at each call: what it has left is handed out in shares.
bool host_has(int64_t bytes);

// While it lives, the calling thread works for a device: the CPU allocator, and what holds the intermediate results of compiled
// graphs, refuse large pieces that the host has not.
class AllocatesForDevice {
 public:
  AllocatesForDevice() noexcept;
  ~AllocatesForDevice();
  AllocatesForDevice(const AllocatesForDevice&) = delete;
  AllocatesForDevice& operator=(const AllocatesForDevice&) = delete;
};
// Whether one lives in the calling thread.
bool allocates_for_device() noexcept;

// Makes the CPU allocator of the process do so, and those that ask may_take().
void guard_host_memory();

}  // namespace npugraph::npu
