// SPDX-License-Identifier: Apache-2.0
#include "torch/bridge/spare_memory.h"

#include <gtest/gtest.h>

namespace npugraph::bridge {
namespace {

constexpr size_t kBytes = 4 * SpareMemory::kLeastBytes;

TEST(SpareMemory, ServesTheNextRequestWithWhatCameBack) {
  SpareMemory& memory = SpareMemory::instance();
  memory.trim();
  memory.expect(3 * kBytes);
  c10::DataPtr first = memory.allocate(kBytes), second = memory.allocate(kBytes);
  void* const place = first.get();
  EXPECT_NE(second.get(), place);
  first.clear();
  EXPECT_EQ(memory.allocate(kBytes + 1).get() == place, false);  // the spare block is too small
  EXPECT_EQ(memory.allocate(kBytes - kBytes / 16).get(), place);
  EXPECT_EQ(memory.allocate(kBytes).get(), place);
  memory.trim();
}

TEST(SpareMemory, KeepsAsMuchAsACallTakes) {
  SpareMemory& memory = SpareMemory::instance();
  memory.trim();
  memory.expect(2 * kBytes);
  std::vector<c10::DataPtr> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(memory.allocate(kBytes));
  void* const last = blocks.back().get();
  blocks.clear();
  const auto spare = [] {
    for (const runtime::PoolInfo& pool : runtime::pools())
      if (pool.name == "spare results") return pool.live_bytes;
    return int64_t{0};
  };
  EXPECT_EQ(spare(), static_cast<int64_t>(2 * kBytes));
  const c10::DataPtr one = memory.allocate(kBytes), other = memory.allocate(kBytes);
  EXPECT_TRUE(one.get() == last || other.get() == last);
  EXPECT_EQ(spare(), 0);
  memory.trim();
  EXPECT_EQ(spare(), 0);
}

}  // namespace
}  // namespace npugraph::bridge
