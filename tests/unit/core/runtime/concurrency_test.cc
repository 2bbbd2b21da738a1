// SPDX-License-Identifier: Apache-2.0
// Calls at the same time, calls inside calls, calls after a fork.
#include <barrier>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/runtime_test_util.h"
#include "runtime/threads/worker_pool.h"
#include "runtime/watch/ledger.h"

// The thread sanitizer calls this function. By default, it refuses new threads in a forked child.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() { return "die_after_fork=0"; }

namespace npugraph::runtime {
namespace {

void call_many_times(Executable& executable, TestHost& host, int thread, int calls) {
  for (int i = 0; i < calls; ++i) {
    const size_t size = 1 + (thread + i) % 5;
    Argument x(Floats(size, static_cast<float>(thread)));
    const Results r(executable, host, {x.bound()});
    ASSERT_EQ(r.result.status, RunStatus::kOk) << r.result.error;
    ASSERT_EQ(r.values(0), Floats(size, 2.0f * static_cast<float>(thread) + 1));
  }
}

TEST(Concurrency, ManyThreadsOnOneExecutable) {
  constexpr int kThreads = 8;
  constexpr int kCalls = 200;
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain, {.max_instances = 6, .max_concurrent = 3});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back(call_many_times, std::ref(*executable), std::ref(host), t, kCalls);
  for (int i = 0; i < 100; ++i) {
    EXPECT_LE(Observation(*executable).instances().size(), 6u);
    EXPECT_GE(Observation(*executable).memory().arena_bytes, 0);
    Observation(*executable).traffic();
    if (i % 10 == 0) HeldMemory(*executable).trim();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Observation(*executable).counters().replays, kThreads * kCalls);
  EXPECT_EQ(host.live, 0);
}

// Two calls that wait for each other inside a task: each has memory of its own.
TEST(Concurrency, CallsOverlapInTime) {
  TestHost host;
  define_chain(host);
  std::barrier meeting(2);
  host.define("increment", [&](ng_call& call) {
    meeting.arrive_and_wait();  // both calls have written their intermediate by now
    return elementwise([](float x) { return x + 1; })(call);
  });
  const auto executable = make(host, kChain, {.max_concurrent = 2});
  const auto call = [&](float value) {
    Argument x(Floats(16, value));
    EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats(16, 2 * value + 1));
  };
  std::thread other(call, 5.0f);
  call(7.0f);
  other.join();
  EXPECT_EQ(Observation(*executable).counters().captures, 2);
  EXPECT_EQ(Observation(*executable).instances().size(), 1u);  // one size, whoever bound it
}

// A task may call its own Executable. Nested calls never wait, and release the memory that they take beyond the limit.
TEST(Concurrency, NestedCalls) {
  TestHost host;
  define_chain(host);
  std::unique_ptr<Executable> executable;
  int depth = 0;
  host.define("double", [&](ng_call& call) {
    if (depth < 3) {
      ++depth;
      Argument inner(Floats(2, 10.0f * static_cast<float>(depth)));
      const Results r(*executable, host, {inner.bound()});
      EXPECT_EQ(r.values(0), Floats(2, 2 * inner.values[0] + 1));
    }
    return elementwise([](float x) { return 2 * x; })(call);
  });
  executable = make(host, kChain, {.max_concurrent = 1});
  Argument x({1, 2});
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats({3, 5}));
  EXPECT_EQ(depth, 3);
  EXPECT_EQ(Observation(*executable).counters().replays, 4);
  EXPECT_LE(pools().size(), 2u);
}

void sum_in_parallel(void* arg, int64_t begin, int64_t end) {
  static_cast<std::atomic<int64_t>*>(arg)->fetch_add(end - begin);
}

TEST(Concurrency, ForkedChildRunsOnWorkersOfItsOwn) {
  TestHost host;
  define_chain(host);
  host.define("double", [&](ng_call& call) {
    std::atomic<int64_t> indices{0};
    call.host->parallel_for(call.host, 0, 10'000, 1, sum_in_parallel, &indices);
    if (indices != 10'000) return NG_ERROR;
    return elementwise([](float x) { return 2 * x; })(call);
  });
  const auto executable = make(host, kChain);
  Argument x({1, 2});
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats({3, 5}));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Results r(*executable, host, {x.bound()});
    _exit(r.result.status == RunStatus::kOk && r.values(0) == Floats({3, 5}) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats({3, 5}));
}

}  // namespace
}  // namespace npugraph::runtime
