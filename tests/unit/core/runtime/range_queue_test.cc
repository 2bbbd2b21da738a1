// SPDX-License-Identifier: Apache-2.0
#include "runtime/threads/range_queue.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace npugraph::runtime {
namespace {

using Order = std::vector<int64_t>;

// The ranges of one index each that the thread of a place takes if no other thread takes any.
Order order_of(RangeQueue& queue, int32_t place, uint32_t ranges, int32_t threads) {
  Order order;
  const auto note_range = [](void* arg, int64_t first, int64_t) { static_cast<Order*>(arg)->push_back(first); };
  queue.publish({note_range, &order, 0, ranges, 1, fp_control(), 1}, ranges, threads);
  EXPECT_TRUE(queue.has_ranges());
  queue.take_ranges(place, [](uint64_t) {});
  EXPECT_FALSE(queue.has_ranges());
  queue.await_all(ranges);
  return order;
}

using Counts = std::vector<std::atomic<int>>;

// Counts a range of one index.
void count_range(void* counts, int64_t first, int64_t) { ++(*static_cast<Counts*>(counts))[first]; }

TEST(RangeQueue, ThreadsTakeTheirShareFirst) {
  RangeQueue queue;
  EXPECT_EQ(order_of(queue, 0, 8, 2), (Order{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(order_of(queue, 1, 8, 2), (Order{4, 5, 6, 7, 0, 1, 2, 3}));
  EXPECT_EQ(order_of(queue, 2, 8, 3), (Order{5, 6, 7, 0, 1, 2, 3, 4}));
}

TEST(RangeQueue, ThreadsWithoutAShareHelpOthers) {
  RangeQueue queue;
  EXPECT_EQ(order_of(queue, 3, 2, 4), (Order{1, 0}));
  Order all(64);
  for (int64_t i = 0; i < 64; ++i) all[i] = (i + 36) % 64;
  EXPECT_EQ(order_of(queue, 9, 64, 16), all);
}

TEST(RangeQueue, SharesAreEnoughForManyThreads) {
  RangeQueue queue;
  Order all(256);
  for (int64_t i = 0; i < 256; ++i) all[i] = (i + 200) % 256;
  EXPECT_EQ(order_of(queue, 50, 256, 64), all);
  EXPECT_EQ(order_of(queue, 100, 256, 128).size(), 256u);
  EXPECT_EQ(order_of(queue, 1, 8, 2), (Order{4, 5, 6, 7, 0, 1, 2, 3}));  // fewer threads than before
}

TEST(RangeQueue, MoreThreadsThanProcessors) {
  constexpr int kThreads = 20, kRanges = 80;
  RangeQueue queue;
  Counts taken(kRanges);
  for (int round = 1; round <= 20; ++round) {
    queue.publish({count_range, &taken, 0, kRanges, 1, fp_control(), static_cast<uint64_t>(round)}, kRanges, kThreads);
    std::vector<std::jthread> others;
    for (int place = 1; place < kThreads; ++place)
      others.emplace_back([&queue, place] { queue.take_ranges(place, [](uint64_t) {}); });
    queue.take_ranges(0, [](uint64_t) {});
    queue.await_all(kRanges);
    for (const auto& times : taken) EXPECT_EQ(times, round);
  }
}

TEST(RangeQueue, AThreadThatComesLateFindsItsShareTaken) {
  RangeQueue queue;
  Counts taken(8);
  for (int round = 1; round <= 200; ++round) {
    queue.publish({count_range, &taken, 0, 8, 1, fp_control(), static_cast<uint64_t>(round)}, 8, 2);
    std::thread other([&] { queue.take_ranges(1, [](uint64_t) {}); });
    queue.take_ranges(0, [](uint64_t) {});
    queue.await_all(8);
    other.join();
    for (const auto& times : taken) EXPECT_EQ(times, round);
  }
}

}  // namespace
}  // namespace npugraph::runtime
