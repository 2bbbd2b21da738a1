// SPDX-License-Identifier: Apache-2.0
// Operators run while they are captured, so that their results have sizes, and run again at replays. Effects for the
// user, such as printing, are left to replays, and numbers that are drawn during the capture are not those of replays.
#pragma once

#include <ATen/core/Tensor.h>

#include "device/npu/call_record.h"

namespace npugraph::npu {

// Alive while the calling thread runs operators that are recorded in a capture.
class Captured {
 public:
  Captured() { ++this_call.captured; }
  ~Captured() { --this_call.captured; }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
};
inline bool is_captured() noexcept { return this_call.captured != 0; }

// The same; true also before an operator on `tensor` has been handed to the capture.
bool is_captured(const at::Tensor& tensor);
// Sets the function that tells whether the calling thread's current stream
// of a device is captured. Once in the process.
void set_is_capturing(bool (*is_capturing)(c10::DeviceIndex));

}  // namespace npugraph::npu
