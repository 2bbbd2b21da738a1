// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace npugraph {

// The most npu devices that a process can have. NPUGRAPH_DEVICES allows no more.
inline constexpr int kMaxDevices = 16;

}  // namespace npugraph
