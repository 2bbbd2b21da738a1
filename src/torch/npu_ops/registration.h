// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace npugraph::npu_ops {

// Makes the operators known to torch. Does nothing after the first time.
void register_operators();

}  // namespace npugraph::npu_ops
