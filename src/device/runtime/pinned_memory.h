// SPDX-License-Identifier: Apache-2.0
// Pinned host memory. On this device it is ordinary host memory that is registered as pinned, so that is_pinned()
// answers as on a device that needs pinned memory.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace npugraph::device {

// Thread-safe.
at::HostAllocator& pinned_allocator();
bool is_pinned(const void* pointer);

}  // namespace npugraph::device
