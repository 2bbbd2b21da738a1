// SPDX-License-Identifier: Apache-2.0
#include "device/npu/call_record.h"

#include "device/npu/facts.h"

namespace npugraph::npu {

constinit thread_local CallRecord this_call;

namespace {

bool (*is_capturing)(c10::DeviceIndex) = nullptr;

}  // namespace

bool is_captured(const at::Tensor& tensor) {
  const c10::Device device = tensor.device();
  return is_captured() || (device.type() == kNpu && is_capturing != nullptr && is_capturing(device.index()));
}

void set_is_capturing(bool (*given)(c10::DeviceIndex)) { is_capturing = given; }

}  // namespace npugraph::npu
