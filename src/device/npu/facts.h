// SPDX-License-Identifier: Apache-2.0
// Facts that the npu device reports. It is host memory and host cores that answer like one of Ascend's training cards.
#pragma once

#include <cstdint>
#include <string>

#include <c10/core/Device.h>

#include "base/env.h"

namespace npugraph::npu {

inline constexpr c10::DeviceType kNpu = c10::DeviceType::PrivateUse1;

struct Facts {
  int devices;
  std::string name;
  int soc_version;
  int cube_cores = 24;
  int vector_cores = 48;
  int64_t l2_cache_bytes = int64_t{192} << 20;
};

// The facts of the process, from the environment (docs/env_vars.md) at the first call. Thread-safe.
const Facts& facts();

// The current device of the calling thread.
c10::DeviceIndex current_device() noexcept;
void set_current_device(c10::DeviceIndex index) noexcept;

// `index` itself, or the current device for -1. c10::Error when there is no such device.
c10::DeviceIndex checked_device(int64_t index);

// Sets the current device of the calling thread while it is alive.
class CurrentDevice {
 public:
  explicit CurrentDevice(c10::DeviceIndex index) noexcept : before_(current_device()) { set_current_device(index); }
  ~CurrentDevice() { set_current_device(before_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  c10::DeviceIndex before_;
};

}  // namespace npugraph::npu
