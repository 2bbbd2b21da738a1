// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace npugraph::npu_ops {

// Registers the operators with torch. Later calls do nothing.
void register_operators();

}  // namespace npugraph::npu_ops
