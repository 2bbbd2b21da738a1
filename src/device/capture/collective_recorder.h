// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace npugraph::capture {

// Lets process groups record their collectives in captures (device/npu/collective_recorder.h).
void install_collective_recorder();

}  // namespace npugraph::capture
