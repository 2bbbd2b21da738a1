// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace npugraph::eager {

// Registers what torch asks a backend for: availability, devices, generators and pinned memory. Once per process.
void register_hooks();

}  // namespace npugraph::eager
