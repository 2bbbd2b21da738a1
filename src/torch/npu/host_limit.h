// SPDX-License-Identifier: Apache-2.0
// How much of the host's memory the devices may take. Thread-safe.
//
// Where NPUGRAPH_DEVICE_MEMORY gives devices a size, that holds, and nothing here asks the host.
#pragma once

#include <cstdint>
#include <string_view>

namespace npugraph::npu {

// Bytes of each device. Without the variable what the host had left at the first call, less a reserve for the process itself:
// all devices are this host, so each alone may have all of it.
int64_t device_bytes();

// Whether the host has `bytes` more. Asks it not at each call: what it has left is handed out in shares.
bool host_has(int64_t bytes);

// What errors of the CPU allocator say before the number of bytes.
inline constexpr std::string_view kRefusedByCpu = "DefaultCPUAllocator: can't allocate memory: you tried to allocate ";

// While it lives, the calling thread runs a CPU kernel for a device: the CPU allocator refuses large pieces that the host has not.
class AllocatesForDevice {
 public:
  AllocatesForDevice() noexcept;
  ~AllocatesForDevice();
  AllocatesForDevice(const AllocatesForDevice&) = delete;
  AllocatesForDevice& operator=(const AllocatesForDevice&) = delete;
};

// Makes the CPU allocator of the process do so.
void guard_cpu_allocator();

}  // namespace npugraph::npu
