// SPDX-License-Identifier: Apache-2.0
#include "runtime/threads/worker_pool.h"

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/threads/fp_control.h"

namespace npugraph::runtime {
namespace {

template <typename Body>
void parallel_for(int64_t begin, int64_t end, int64_t grain, Body body) {
  const auto call = [](void* arg, int64_t first, int64_t last) { (*static_cast<Body*>(arg))(first, last); };
  WorkerPool::instance().parallel_for(begin, end, grain, call, &body);
}

std::set<std::pair<int64_t, int64_t>> ranges_of(int64_t begin, int64_t end, int64_t grain) {
  std::mutex mutex;
  std::set<std::pair<int64_t, int64_t>> ranges;
  parallel_for(begin, end, grain, [&](int64_t first, int64_t last) {
    std::lock_guard lock(mutex);
    EXPECT_TRUE(ranges.emplace(first, last).second);
  });
  return ranges;
}

TEST(WorkerPool, RangesCoverEveryIndexOnce) {
  for (const int64_t n : {0, 1, 2, 7, 64, 1000, 12345}) {
    for (const int64_t grain : {1, 3, 100, 100000}) {
      int64_t next = -5;
      for (const auto& [first, last] : ranges_of(-5, n - 5, grain)) {
        EXPECT_EQ(first, next);
        EXPECT_TRUE(last - first >= grain || last == n - 5) << first << " " << last;
        next = last;
      }
      EXPECT_EQ(next, n - 5);
    }
  }
}

TEST(WorkerPool, RangesDependOnTheSizeOnly) {
  const auto once = ranges_of(0, 9999, 10);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(ranges_of(0, 9999, 10), once);
}

TEST(WorkerPool, SmallLoopsStayInTheCaller) {
  std::thread::id where;
  parallel_for(0, 100, 60, [&](int64_t, int64_t) { where = std::this_thread::get_id(); });
  EXPECT_EQ(where, std::this_thread::get_id());
}

TEST(WorkerPool, NestedRegionsRunInTheCallingThread) {
  std::atomic<int64_t> sum{0};
  std::atomic<int> elsewhere{0};
  parallel_for(0, 8, 1, [&](int64_t first, int64_t last) {
    const auto outer = std::this_thread::get_id();
    for (int64_t i = first; i < last; ++i) {
      parallel_for(0, 100, 1, [&](int64_t a, int64_t b) {
        sum += b - a;
        elsewhere += std::this_thread::get_id() != outer;
      });
    }
  });
  EXPECT_EQ(sum, 800);
  EXPECT_EQ(elsewhere, 0);
}

TEST(WorkerPool, RegionsOfSeveralThreadsAllComplete) {
  std::vector<std::thread> threads;
  std::atomic<int64_t> sum{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) parallel_for(0, 64, 1, [&](int64_t a, int64_t b) { sum += b - a; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 4 * 200 * 64);
}

#if defined(__x86_64__)
TEST(WorkerPool, WorkersTakeTheControlWordOfTheCaller) {
  constexpr uint64_t kFlushToZero = 0x8000;
  const uint64_t before = fp_control();
  for (const uint64_t word : {before | kFlushToZero, before & ~kFlushToZero}) {
    set_fp_control(word);
    std::atomic<int> different{0};
    for (int i = 0; i < 100; ++i) {
      parallel_for(0, 8, 1, [&](int64_t, int64_t) { different += fp_control() != word; });
    }
    EXPECT_EQ(different, 0);
  }
  set_fp_control(before);
}
#endif

thread_local int32_t number_in_team = 0;
std::atomic<int> teams_run{0};

// A team of two threads. The second one is made anew for each region.
Team team_of_two() {
  return {[](void (*body)(void*), void* arg, uint32_t threads) {
            EXPECT_EQ(threads, 2U);
            ++teams_run;
            std::thread second([&] {
              number_in_team = 1;
              const uint64_t before = fp_control();
              body(arg);
              EXPECT_EQ(fp_control(), before);
            });
            body(arg);
            second.join();
          },
          [] { return number_in_team; }};
}

class TeamOfTheHost : public testing::Test {
 protected:
  void SetUp() override {
    pool.set_size(2);
    // With one processor there are no regions. SmallLoopsStayInTheCaller and SizeFollowsTheHost test that case.
    if (pool.size() < 2) GTEST_SKIP() << "one processor: nothing is given to a team";
  }
  void TearDown() override {
    pool.set_team({});
    pool.set_size(size);
  }

  WorkerPool& pool = WorkerPool::instance();
  const int32_t size = pool.size();
};

TEST_F(TeamOfTheHost, RunsRegions) {
  pool.set_team(team_of_two());
  const uint64_t regions = pool.regions();
  const int teams = teams_run;
  const auto ranges = ranges_of(0, 9999, 10);
  EXPECT_EQ(teams_run, teams + 1);
  EXPECT_EQ(pool.regions(), regions + 1);
  for (const int32_t id : pool.workers_since(regions)) EXPECT_TRUE(id == 0 || id == 1) << id;
  std::atomic<int64_t> nested{0};
  parallel_for(0, 8, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) parallel_for(0, 100, 1, [&](int64_t a, int64_t b) { nested += b - a; });
  });
  EXPECT_EQ(nested, 800);
  EXPECT_EQ(teams_run, teams + 2);
#if defined(__x86_64__)
  const uint64_t before = fp_control();
  set_fp_control(before | 0x8000);
  parallel_for(0, 8, 1, [&](int64_t, int64_t) { EXPECT_EQ(fp_control(), before | 0x8000); });
  set_fp_control(before);
#endif
  pool.set_team({});
  EXPECT_EQ(ranges_of(0, 9999, 10), ranges);
}

// Returns how often the team was run for a region in the child of a fork.
int teams_run_in_child() {
  const pid_t child = fork();
  if (child == 0) {
    const int teams = teams_run;
    ranges_of(0, 9999, 10);
    _exit(teams_run - teams);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_F(TeamOfTheHost, OutlivesAForkIfItsThreadsEnded) {
  Team team = team_of_two();
  pool.set_team(team);
  EXPECT_EQ(teams_run_in_child(), 0);
  team.end_threads = [] { return false; };
  pool.set_team(team);
  EXPECT_EQ(teams_run_in_child(), 0);
  team.end_threads = [] { return true; };
  pool.set_team(team);
  EXPECT_EQ(teams_run_in_child(), 1);
}

template <typename Body>
void with_team(Body body) {
  WorkerPool::instance().with_team([](void* arg) { (*static_cast<Body*>(arg))(); }, &body);
}

TEST_F(TeamOfTheHost, StandsByForManyRegions) {
  const auto ranges = ranges_of(0, 9999, 10);
  pool.set_team(team_of_two());
  const int teams = teams_run;
  const uint64_t regions = pool.regions();
  bool nested_ran = false;
  const std::thread::id caller = std::this_thread::get_id();
  with_team([&] {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    for (int i = 0; i < 200; ++i) EXPECT_EQ(ranges_of(0, 9999, 10), ranges);
    with_team([&] { nested_ran = ranges_of(0, 9999, 10) == ranges; });
    std::thread other([&] { EXPECT_EQ(ranges_of(0, 9999, 10), ranges); });
    other.join();
    // The first range of this region waits until others are done, so the second thread must run those.
    std::atomic<int> done{0};
    parallel_for(0, 8, 1, [&](int64_t first, int64_t) {
      if (first == 0)
        while (done.load() < 4) std::this_thread::yield();
      ++done;
    });
  });
  EXPECT_TRUE(nested_ran);
  EXPECT_EQ(teams_run, teams + 1);
  EXPECT_EQ(pool.regions(), regions + 203);
  for (const int32_t id : pool.workers_since(regions)) EXPECT_TRUE(id == 0 || id == 1) << id;
  pool.set_team({});
  bool ran = false;
  with_team([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(WorkerPool, SizeFollowsTheHost) {
  WorkerPool& pool = WorkerPool::instance();
  const int32_t size = pool.size();
  pool.set_size(1);
  EXPECT_EQ(pool.size(), 1);
  std::set<std::pair<int64_t, int64_t>> whole{{0, 100}};
  EXPECT_EQ(ranges_of(0, 100, 1), whole);
  pool.set_size(size);
  EXPECT_EQ(pool.size(), size);
}

}  // namespace
}  // namespace npugraph::runtime
