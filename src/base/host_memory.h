// SPDX-License-Identifier: Apache-2.0
// How much memory the host has left for this process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace npugraph {

// Bytes that the process can still use before the kernel ends processes: the least of what /proc/meminfo calls available and
// what each memory cgroup of the process (v1 or v2) has below its limit. Memory of files that the kernel can drop counts as left,
// swap does not. INT64_MAX where the system says nothing. Reads files at each call; their paths begin with `root`.
int64_t host_memory_left(const std::string& root = "");

// Whether the calling thread may take `bytes` more from the system, as the guard says; all may be taken before there is one.
// Asked before large pieces are taken otherwise than from torch's allocators. Thread-safe.
bool may_take(int64_t bytes);
void guard_memory(bool (*guard)(int64_t bytes));

// What errors of those who may not, or cannot, take memory say before the number of bytes; torch's allocator says it too.
inline constexpr std::string_view kNoMemory = "can't allocate memory: you tried to allocate ";

}  // namespace npugraph
