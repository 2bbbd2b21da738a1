// SPDX-License-Identifier: Apache-2.0
// torch.accelerator.Graph on npu.
#pragma once

namespace npugraph::eager {

// Once per process, after the device has its name.
void register_graphs();

}  // namespace npugraph::eager
