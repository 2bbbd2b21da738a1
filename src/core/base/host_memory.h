// SPDX-License-Identifier: Apache-2.0
// Memory of the host: how much it has left for this process, and the pages behind memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace npugraph {

// Bytes that the process can still use before the kernel kills processes: the minimum of MemAvailable in /proc/meminfo
// and of the room that each memory cgroup of the process (v1 or v2) has below its limit. File pages that the kernel can
// drop count as free, swap does not. INT64_MAX if the system does not tell. Reads files at each call; their paths begin
// with `root`.
int64_t host_memory_left(const std::string& root = "");

// Whether the calling thread may take `bytes` more from the system. The guard decides; without a guard the answer is
// yes. Called before large allocations that do not come from torch's allocators. Thread-safe.
bool may_take(int64_t bytes);
void guard_memory(bool (*guard)(int64_t bytes));

// The first words of error messages about memory that was refused or is missing; the number of bytes follows. The
// same as in torch's allocator.
inline constexpr std::string_view kNoMemory = "can't allocate memory: you tried to allocate ";

inline constexpr int64_t kHugePage = 2 << 20;

// Asks the kernel for huge pages behind the whole huge pages within [data, data + bytes). Only advice: the kernel may
// not follow it.
void prefer_huge_pages(void* data, int64_t bytes);

// Backs all pages of [data, data + bytes) with memory, so that no later access faults. Keeps the content.
void populate_pages(void* data, int64_t bytes);

}  // namespace npugraph
