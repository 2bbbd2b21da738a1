// SPDX-License-Identifier: Apache-2.0
#include "base/counters.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace npugraph {
namespace {

TEST(Counters, CountInGroups) {
  Counters counters;
  counters.add("cache", "hits");
  counters.add("cache", "hits", 2);
  counters.add("cache", "misses", 0);
  counters.add("passes", "hits", 5);
  EXPECT_EQ(counters.snapshot(),
            (Counters::Snapshot{{"cache", {{"hits", 3}, {"misses", 0}}}, {"passes", {{"hits", 5}}}}));
}

TEST(Counters, ReferencesStayValid) {
  Counters counters;
  Counter& first = counters.at("group", "first");
  for (int i = 0; i < 1000; ++i) counters.add("group", "other " + std::to_string(i));
  first.add(7);
  EXPECT_EQ(&counters.at("group", "first"), &first);
  EXPECT_EQ(counters.snapshot()["group"]["first"], 7);
}

TEST(Counters, ManyThreadsLoseNothing) {
  Counters counters;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) counters.add("group", i % 2 == 0 ? "even" : "odd");
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counters.at("group", "even").value(), 2000);
  EXPECT_EQ(counters.at("group", "odd").value(), 2000);
}

TEST(Counters, TheProcessHasOneSet) { EXPECT_EQ(&process_counters(), &process_counters()); }

}  // namespace
}  // namespace npugraph
