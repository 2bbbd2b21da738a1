// SPDX-License-Identifier: Apache-2.0
// Pinned host memory. On this device it is ordinary host memory that is registered as pinned, so that is_pinned()
// answers as on a device that needs pinned memory.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

#include "torch/npu/export.h"

namespace npugraph::device {

// Thread-safe.
NPUGRAPH_EXPORT at::HostAllocator& pinned_allocator();
NPUGRAPH_EXPORT bool is_pinned(const void* pointer);

}  // namespace npugraph::device
