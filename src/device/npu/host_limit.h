// SPDX-License-Identifier: Apache-2.0
// How much of the host's memory the devices may take. Thread-safe.
//
// If NPUGRAPH_DEVICE_MEMORY gives devices a size, that size applies, and the host is not asked.
#pragma once

#include <cstdint>

#include "device/npu/call_record.h"

namespace npugraph::npu {

// Bytes of each device. Without the variable: the memory that the host had left at the first call, less a reserve for
// the process itself. All devices share the host's memory, so one of them may take all of it, and all together no more.
int64_t device_bytes();
bool is_host_limited();

// Whether the host has `bytes` more. Does not ask it at each call: the memory that is left is handed out in shares.
bool host_has(int64_t bytes);

// While it is alive, the calling thread works for a device: the CPU allocator and the arenas of compiled graphs refuse
// large pieces that the host does not have.
class AllocatesForDevice {
 public:
  AllocatesForDevice() noexcept { ++this_call.works_for_device; }
  ~AllocatesForDevice() { --this_call.works_for_device; }
  AllocatesForDevice(const AllocatesForDevice&) = delete;
  AllocatesForDevice& operator=(const AllocatesForDevice&) = delete;
};
// Whether one is alive in the calling thread.
inline bool allocates_for_device() noexcept { return this_call.works_for_device > 0; }

// Makes the CPU allocator of the process and may_take() refuse such pieces, unless NPUGRAPH_DEVICE_MEMORY is set.
void guard_host_memory();

}  // namespace npugraph::npu
