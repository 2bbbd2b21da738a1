// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace npugraph::eager {

// torch.autocast("npu"): the operators that run in lower precision, in float32 or in the widest type of their operands
// are those of torch's lists for accelerators.
void register_autocast();

}  // namespace npugraph::eager
