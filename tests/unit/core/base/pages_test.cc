// SPDX-License-Identifier: Apache-2.0
#include "base/pages.h"

#include <cstddef>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace npugraph {
namespace {

constexpr int64_t kBytes = 1 << 20;
constexpr int64_t kPage = 4096;

TEST(Pages, PopulatedMemoryIsThere) {
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const bytes = static_cast<volatile std::byte*>(memory);
  bytes[kPage - 1] = std::byte{7};
  populate_pages(static_cast<std::byte*>(memory) + kPage - 1, kBytes - kPage);  // neither end is at a page boundary
  EXPECT_TRUE(bytes[kPage - 1] == std::byte{7});
  std::vector<unsigned char> resident(kBytes / kPage);
  ASSERT_EQ(mincore(memory, kBytes, resident.data()), 0);
  populate_pages(memory, 0);
  munmap(memory, kBytes);
  // Linux refuses this advice on memory that is not there. User-mode emulators (make aarch64) accept and ignore any.
  if (madvise(nullptr, kPage, MADV_POPULATE_WRITE) == 0) GTEST_SKIP() << "an emulator ignores advice on memory";
  for (const unsigned char page : resident) EXPECT_EQ(page & 1, 1);
}

}  // namespace
}  // namespace npugraph
