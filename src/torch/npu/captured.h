// SPDX-License-Identifier: Apache-2.0
// Operators that are being captured run, so that their results have sizes, and run again at replays. What they do for the user,
// as printing, waits for replays, and numbers that they draw are not those of replays.
#pragma once

#include <ATen/core/Tensor.h>

namespace npugraph::npu {

// While alive, operators that the calling thread runs are recorded as parts of what is being captured.
class Captured {
 public:
  Captured();
  ~Captured();
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
};
bool is_captured() noexcept;

// The same, also before an operator on `tensor` has been handed to the capture.
bool is_captured(const at::Tensor& tensor);
// Says whether the calling thread's current stream of a device is being captured. Once in the process.
void set_is_capturing(bool (*is_capturing)(c10::DeviceIndex));

}  // namespace npugraph::npu
