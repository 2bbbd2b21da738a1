// SPDX-License-Identifier: Apache-2.0
#include "base/pages.h"

#include <cstddef>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

namespace npugraph {
namespace {

constexpr int64_t kBytes = 1 << 20;
constexpr int64_t kPage = 4096;

int64_t faults_of_thread() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

TEST(Pages, PopulatedMemoryIsWrittenWithoutFaults) {
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const bytes = static_cast<volatile std::byte*>(memory);
  bytes[kPage - 1] = std::byte{7};
  populate_pages(static_cast<std::byte*>(memory) + kPage - 1, kBytes - kPage);  // neither end is one of a page
  EXPECT_TRUE(bytes[kPage - 1] == std::byte{7});
  const int64_t before = faults_of_thread();
  for (int64_t at = 0; at < kBytes - 1; at += kPage) bytes[at] = std::byte{1};
  EXPECT_EQ(faults_of_thread(), before);
  populate_pages(memory, 0);
  munmap(memory, kBytes);
}

}  // namespace
}  // namespace npugraph
