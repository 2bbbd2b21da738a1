// SPDX-License-Identifier: Apache-2.0
#include "backend/bridge/spare_memory.h"

#include <vector>

#include <gtest/gtest.h>

namespace npugraph::bridge {
namespace {

constexpr size_t kBytes = 4 * SpareMemory::kLeastBytes;

int64_t spare() {
  for (const runtime::PoolInfo& pool : runtime::pools())
    if (pool.name == "spare results") return pool.live_bytes;
  return 0;
}

TEST(SpareMemory, ServesTheNextRequestWithWhatCameBack) {
  SpareMemory& memory = SpareMemory::instance();
  memory.trim();
  memory.expect(&memory, 3 * kBytes);
  c10::DataPtr first = memory.allocate(kBytes), second = memory.allocate(kBytes);
  void* const place = first.get();
  EXPECT_NE(second.get(), place);
  first.clear();
  EXPECT_NE(memory.allocate(2 * kBytes).get(), place);  // the spare block is too small
  EXPECT_EQ(memory.allocate(kBytes / 2).get(), place);
  EXPECT_EQ(memory.allocate(kBytes).get(), place);
  memory.trim();
}

TEST(SpareMemory, KeepsAsMuchAsTheLatestCallsOfAllGraphsTake) {
  SpareMemory& memory = SpareMemory::instance();
  memory.trim();
  const int graph = 0, other = 0;
  memory.expect(&graph, 8 * kBytes);
  memory.expect(&graph, kBytes);
  memory.expect(&other, kBytes);
  std::vector<c10::DataPtr> blocks;
  for (int i = 0; i < 2; ++i) blocks.push_back(memory.allocate(kBytes));
  for (int i = 0; i < 2; ++i) blocks.push_back(memory.allocate(3 * kBytes));
  void* const first = blocks.front().get();
  blocks.clear();
  EXPECT_LE(spare(), static_cast<int64_t>(2 * kBytes));
  memory.trim();
  EXPECT_EQ(spare(), 0);
  EXPECT_EQ(memory.allocate(1).get() == first, false);
}

TEST(SpareMemory, KeepsTheSlabsOfLiveBlocks) {
  SpareMemory& memory = SpareMemory::instance();
  memory.trim();
  c10::DataPtr block = memory.allocate(kBytes);
  memory.trim();
  static_cast<char*>(block.get())[kBytes - 1] = 1;
  block.clear();
  EXPECT_EQ(spare(), 0);
}

}  // namespace
}  // namespace npugraph::bridge
