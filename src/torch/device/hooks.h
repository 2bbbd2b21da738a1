// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace npugraph::device {

// What torch asks a backend: whether it is there, its devices, generators and pinned memory. Once per process.
void register_hooks();

}  // namespace npugraph::device
