// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace npugraph::device {

// Makes npu a device of this process, as torch.device("npu"), and has it run the operators of torch and, where they are
// registered, of Ascend. Does nothing after the first time. Not to be called while other
// threads use torch. c10::Error when the process already has another PrivateUse1 device.
void register_device();

}  // namespace npugraph::device
