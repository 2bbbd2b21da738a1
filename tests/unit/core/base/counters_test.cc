// SPDX-License-Identifier: Apache-2.0
#include "base/counters.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace npugraph {
namespace {

TEST(CounterSet, CountsByName) {
  CounterSet counters;
  counters.at("hits").add();
  counters.at("hits").add(2);
  counters.at("misses").add(0);
  EXPECT_EQ(counters.snapshot(), (CounterSet::Snapshot{{"hits", 3}, {"misses", 0}}));
}

TEST(CounterSet, ReferencesStayValid) {
  CounterSet counters;
  Counter& first = counters.at("first");
  for (int i = 0; i < 1000; ++i) counters.at("other " + std::to_string(i)).add();
  first.add(7);
  EXPECT_EQ(&counters.at("first"), &first);
  EXPECT_EQ(counters.snapshot()["first"], 7);
}

TEST(CounterSet, ManyThreadsLoseNothing) {
  CounterSet counters;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) counters.at(i % 2 == 0 ? "even" : "odd").add();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counters.at("even").value(), 2000);
  EXPECT_EQ(counters.at("odd").value(), 2000);
}

TEST(CounterSet, TheProcessHasOne) { EXPECT_EQ(&process_counters(), &process_counters()); }

}  // namespace
}  // namespace npugraph
