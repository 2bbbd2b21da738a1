// SPDX-License-Identifier: Apache-2.0
// How memory is backed.
#pragma once

#include <cstdint>

namespace npugraph {

inline constexpr int64_t kHugePage = 2 << 20;

// Asks for huge pages under the whole ones of [data, data + bytes). Advice: without it pages are small.
void prefer_huge_pages(void* data, int64_t bytes);

// Gives all pages of [data, data + bytes) memory, so that no later access faults. The content stays.
void populate_pages(void* data, int64_t bytes);

}  // namespace npugraph
