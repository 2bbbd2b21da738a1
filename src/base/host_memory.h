// SPDX-License-Identifier: Apache-2.0
// How much memory the host has left for this process.
#pragma once

#include <cstdint>
#include <string>

namespace npugraph {

// Bytes that the process can still use before the kernel ends processes: the least of what /proc/meminfo calls available and
// what each memory cgroup of the process (v1 or v2) has below its limit. Memory of files that the kernel can drop counts as left,
// swap does not. INT64_MAX where the system says nothing. Reads files at each call; their paths begin with `root`.
int64_t host_memory_left(const std::string& root = "");

}  // namespace npugraph
