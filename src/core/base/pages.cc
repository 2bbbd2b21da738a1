// SPDX-License-Identifier: Apache-2.0
#include "base/pages.h"

#include <algorithm>

#include <sys/mman.h>

namespace npugraph {
namespace {

constexpr intptr_t kPage = 4096;  // the smallest page size; larger ones are multiples of it

}  // namespace

void prefer_huge_pages(void* data, int64_t bytes) {
  const auto begin = (reinterpret_cast<intptr_t>(data) + kHugePage - 1) / kHugePage * kHugePage;
  const auto end = (reinterpret_cast<intptr_t>(data) + bytes) / kHugePage * kHugePage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), static_cast<size_t>(end - begin), MADV_HUGEPAGE);
}

void populate_pages(void* data, int64_t bytes) {
  if (bytes <= 0) return;
  const auto first = reinterpret_cast<intptr_t>(data), last = first + bytes;
  const auto begin = first / kPage * kPage;
#ifdef MADV_POPULATE_WRITE
  // Populates all pages in one call; Linux before 5.14 does not support it.
  if (madvise(reinterpret_cast<void*>(begin), static_cast<size_t>(last - begin), MADV_POPULATE_WRITE) == 0) return;
#endif
  for (intptr_t page = begin; page < last; page += kPage) {
    auto* byte = reinterpret_cast<volatile char*>(std::max(page, first));
    *byte = *byte;
  }
}

}  // namespace npugraph
