// SPDX-License-Identifier: Apache-2.0
#include "runtime/watch/report.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace npugraph::runtime {
namespace {

// A run of two tasks that begins at `begin`: 1 ns in the host, the tasks with 2 ns between them, and 3 ns in the host.
TimedRun timed_run(int64_t begin, int64_t first, int64_t second) {
  const TimeSpan one{begin + 1, begin + 1 + first};
  const TimeSpan two{one.end_ns + 2, one.end_ns + 2 + second};
  return {.run = {begin, two.end_ns + 3}, .tasks = {one, two}};
}

TEST(Times, OfTasksAreMediansBetweenTheShortestAndTheLongest) {
  // The second task takes longest in the run that is shortest.
  const std::vector<TimedRun> runs = {timed_run(0, 100, 20), timed_run(1000, 10, 40), timed_run(2000, 900, 30)};
  std::vector<TaskTraffic> traffic(2);
  add_times(runs, traffic);
  EXPECT_EQ(traffic[0].nanoseconds, 100);
  EXPECT_EQ(traffic[0].least_nanoseconds, 10);
  EXPECT_EQ(traffic[0].most_nanoseconds, 900);
  EXPECT_EQ(traffic[1].nanoseconds, 30);
  EXPECT_EQ(traffic[1].least_nanoseconds, 20);
  EXPECT_EQ(traffic[1].most_nanoseconds, 40);
}

TEST(Times, BeginAsInTheRunOfMiddleLength) {
  std::vector<TaskTraffic> traffic(2);
  add_times({timed_run(5000, 900, 30), timed_run(0, 10, 40), timed_run(1000, 100, 20)}, traffic);
  EXPECT_EQ(traffic[0].begin_nanoseconds, 0);
  EXPECT_EQ(traffic[1].begin_nanoseconds, 102);
}

TEST(Times, OfTwoRunsAreTheShorterOnes) {
  std::vector<TaskTraffic> traffic(2);
  add_times({timed_run(0, 90, 8), timed_run(1000, 7, 8)}, traffic);
  EXPECT_EQ(traffic[0].nanoseconds, 7);
  EXPECT_EQ(traffic[1].begin_nanoseconds, 9);
}

TEST(Times, OfOneRunAreItsOwn) {
  std::vector<TaskTraffic> traffic(2);
  add_times({timed_run(0, 7, 8)}, traffic);
  for (const auto& [task, nanoseconds] : {std::pair(0, 7), std::pair(1, 8)}) {
    EXPECT_EQ(traffic[task].nanoseconds, nanoseconds);
    EXPECT_EQ(traffic[task].least_nanoseconds, nanoseconds);
    EXPECT_EQ(traffic[task].most_nanoseconds, nanoseconds);
  }
}

TEST(Runs, AreOrderedByLength) {
  const std::vector<TimedRun> sorted = by_length({timed_run(0, 50, 1), timed_run(100, 5, 1), timed_run(200, 20, 1)});
  ASSERT_EQ(sorted.size(), 3u);
  EXPECT_EQ(sorted[0].run.begin_ns, 100);
  EXPECT_EQ(sorted[1].run.begin_ns, 200);
  EXPECT_EQ(sorted[2].run.begin_ns, 0);
}

}  // namespace
}  // namespace npugraph::runtime
