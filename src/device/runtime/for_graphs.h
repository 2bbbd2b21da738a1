// SPDX-License-Identifier: Apache-2.0
// npu as compiled graphs see it (backend/bridge/host_device.h).
#pragma once

namespace npugraph::device {

// From now on graphs take tensors of npu, which must be a device of this process.
void register_for_graphs();

}  // namespace npugraph::device
