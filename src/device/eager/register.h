// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace npugraph::eager {

// Makes npu a device of this process, torch.device("npu"), that runs the operators of torch and, if they are
// registered, of Ascend. Does nothing after the first call. Must not be called while other threads use torch.
// c10::Error when the process already has another PrivateUse1 device.
void register_device();

}  // namespace npugraph::eager
