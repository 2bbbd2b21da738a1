// SPDX-License-Identifier: Apache-2.0
// Control of the pages behind memory.
#pragma once

#include <cstdint>

namespace npugraph {

inline constexpr int64_t kHugePage = 2 << 20;

// Asks the kernel for huge pages behind the whole huge pages within [data, data + bytes). Only advice: the kernel may
// not follow it.
void prefer_huge_pages(void* data, int64_t bytes);

// Backs all pages of [data, data + bytes) with memory, so that no later access faults. Keeps the content.
void populate_pages(void* data, int64_t bytes);

}  // namespace npugraph
