// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/block_heap.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace npugraph::runtime {
namespace {

constexpr int64_t kPage = BlockHeap::kGranule;

// A heap with slabs of its own memory.
struct Heap {
  BlockHeap heap;
  std::vector<std::unique_ptr<std::byte[]>> slabs;

  std::byte* add(int64_t bytes) {
    slabs.push_back(std::make_unique<std::byte[]>(bytes));
    heap.add({slabs.back().get(), static_cast<size_t>(bytes)});
    return slabs.back().get();
  }
  std::byte* take(int64_t bytes) {
    std::byte* block = heap.take(bytes);
    if (block != nullptr) return block;
    add(heap.wanted_slab(bytes));
    return heap.take(bytes);
  }
};

TEST(BlockHeap, FreeNeighboursBecomeOneBlock) {
  Heap memory;
  std::byte* const slab = memory.add(4 * kPage);
  std::byte* blocks[4];
  for (std::byte*& block : blocks) block = memory.heap.take(kPage);
  EXPECT_EQ(memory.heap.take(1), nullptr);
  for (const int i : {1, 3, 2}) memory.heap.give_back(blocks[i], kPage);
  EXPECT_EQ(memory.heap.take(4 * kPage), nullptr);
  EXPECT_EQ(memory.heap.take(3 * kPage), slab + kPage);
  EXPECT_EQ(memory.heap.used_bytes(), 4 * kPage);
}

TEST(BlockHeap, NeighboursInOtherSlabsStayApart) {
  const auto memory = std::make_unique<std::byte[]>(2 * kPage);
  BlockHeap heap;
  heap.add({memory.get(), static_cast<size_t>(kPage)});
  heap.add({memory.get() + kPage, static_cast<size_t>(kPage)});
  EXPECT_EQ(heap.take(2 * kPage), nullptr);
  std::byte* const first = heap.take(kPage);
  std::byte* const second = heap.take(kPage);
  heap.give_back(first, kPage);
  heap.give_back(second, kPage);
  EXPECT_EQ(heap.take(2 * kPage), nullptr);
  EXPECT_EQ(heap.shed(0).size(), 2u);
}

TEST(BlockHeap, TakesTheSmallestRangeThatFits) {
  Heap memory;
  std::byte* const large = memory.add(8 * kPage);
  std::byte* const small = memory.add(2 * kPage);
  EXPECT_EQ(memory.heap.take(kPage + 1), small);
  EXPECT_EQ(memory.heap.take(2 * kPage), large);
}

TEST(BlockHeap, ShedsIdleSlabsTheLongestIdleFirst) {
  Heap memory;
  std::byte* const first = memory.add(kPage);
  std::byte* const second = memory.add(2 * kPage);
  std::byte* const third = memory.add(4 * kPage);
  memory.heap.give_back(memory.heap.take(kPage), kPage);
  std::byte* const kept = memory.heap.take(3 * kPage);
  EXPECT_TRUE(memory.heap.shed(4 * kPage).empty());
  const auto shed = memory.heap.shed(kPage);
  ASSERT_EQ(shed.size(), 2u);  // the third one has a block
  EXPECT_EQ(shed[0].data(), second);
  EXPECT_EQ(shed[1].data(), first);
  EXPECT_EQ(kept, third);
  EXPECT_EQ(memory.heap.spare_bytes(), kPage);
}

TEST(BlockHeap, SlabsGrowWithTheHeap) {
  Heap memory;
  EXPECT_EQ(memory.heap.wanted_slab(1), kPage);
  memory.take(10 * kPage);
  EXPECT_EQ(memory.heap.wanted_slab(1), 10 * kPage);
  EXPECT_EQ(memory.heap.wanted_slab(20 * kPage), 20 * kPage);
}

TEST(BlockHeap, OneSlabTakesThePlaceOfManyOnce) {
  Heap memory;
  const auto fill = [&] {
    std::vector<std::byte*> blocks;
    for (int i = 0; i < 5; ++i) blocks.push_back(memory.take(4 * kPage));
    EXPECT_TRUE(memory.heap.consolidate().empty());  // there are blocks
    for (std::byte* block : blocks) memory.heap.give_back(block, 4 * kPage);
    blocks = {memory.take(18 * kPage)};
    memory.heap.give_back(blocks.front(), 18 * kPage);
  };
  fill();
  EXPECT_GT(memory.heap.spare_bytes(), 20 * kPage);
  EXPECT_GT(memory.heap.consolidate().size(), 1u);
  EXPECT_EQ(memory.heap.wanted_slab(1), 20 * kPage);
  fill();
  EXPECT_EQ(memory.heap.spare_bytes(), 20 * kPage);
  EXPECT_TRUE(memory.heap.consolidate().empty());
}

// Blocks never overlap, keep their content, and all memory comes back.
TEST(BlockHeap, RandomBlocks) {
  struct Block {
    std::byte* data;
    int64_t bytes;
    int mark;
  };
  std::mt19937 random(1);
  Heap memory;
  std::vector<Block> blocks;
  for (int step = 0; step < 5000; ++step) {
    if (blocks.empty() || random() % 2 == 0) {
      const int64_t bytes = 1 + random() % (random() % 8 == 0 ? 40 * kPage : 3 * kPage);
      blocks.push_back({memory.take(bytes), bytes, static_cast<int>(random() % 256)});
      std::memset(blocks.back().data, blocks.back().mark, bytes);
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const Block block = blocks.back();
      ASSERT_TRUE(std::all_of(block.data, block.data + block.bytes,
                              [&](std::byte byte) { return byte == static_cast<std::byte>(block.mark); }));
      memory.heap.give_back(block.data, block.bytes);
      blocks.pop_back();
    }
  }
  for (const Block& block : blocks) memory.heap.give_back(block.data, block.bytes);
  EXPECT_EQ(memory.heap.used_bytes(), 0);
  EXPECT_EQ(memory.heap.shed(0).size(), memory.slabs.size());
  EXPECT_EQ(memory.heap.spare_bytes(), 0);
}

}  // namespace
}  // namespace npugraph::runtime
