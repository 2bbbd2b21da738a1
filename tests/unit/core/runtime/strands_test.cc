// SPDX-License-Identifier: Apache-2.0
#include "runtime/threads/strands.h"

#include <atomic>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include <unistd.h>

#include "runtime/runtime_test_util.h"
#include "runtime/threads/worker_pool.h"
#include "runtime/watch/ledger.h"
#include "runtime/watch/running_tasks.h"

namespace npugraph::runtime {
namespace {

// Two streams: `first` on stream 0 and `second` on stream 1 from the input, `sum` of both on stream 0.
std::string two_streams(const std::string& second, const std::string& sum, const std::string& first = "") {
  return R"(npugraph.program 4 @two {
  buffer b0 input(0) bytes(32) live(0, 2)
  buffer b1 arena bytes(32) live(0, 2)
  buffer b2 arena bytes(32) live(1, 2)
  buffer b3 output bytes(32) live(2, 2)
  input 0 "x" b0 : f32[8]{1}
  task 0 kernel "first" )" +
         first + R"( {
    read b0+0 : f32[8]{1}
    write b1+0 : f32[8]{1}
    args(%0)
  }
  task 1 kernel "second" stream(1))" +
         second + R"( {
    read b0+0 : f32[8]{1}
    write b2+0 : f32[8]{1}
    args(%0)
  }
  task 2 kernel "sum" )" +
         sum + R"( {
    read b1+0 : f32[8]{1}
    read b2+0 : f32[8]{1}
    write b3+0 : f32[8]{1}
    args(%0, %1)
  }
  segment 3
  output tensor b3+0 : f32[8]{1}
})";
}

ng_status add(ng_call& call) {
  for (int i = 0; i < 8; ++i) floats(call.buffers[2])[i] = floats(call.buffers[0])[i] + floats(call.buffers[1])[i];
  return NG_OK;
}

class StrandsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WorkerPool::instance().set_size(2);
    if (WorkerPool::instance().size() < 2) GTEST_SKIP() << "one processor: streams run one after the other";
    host.define("first", elementwise([](float x) { return x + 1; }));
    host.define("second", elementwise([](float x) { return 10 * x; }));
    host.define("sum", add);
  }
  void TearDown() override { WorkerPool::instance().set_size(1); }

  // Defines a task that waits inside for another task of this kind: both must run at once, or neither ends.
  void meet(const std::string& name, std::barrier<>& both, TestHost::Body body) {
    host.define(name, [&both, body](ng_call& call) {
      both.arrive_and_wait();
      const ng_status status = body(call);
      both.arrive_and_wait();
      return status;
    });
  }
  void expect_meeting(const std::vector<TaskRecord>& log) {
    ASSERT_EQ(log.size(), 3u);
    const bool in_order = log[0].task == 0;
    const TaskRecord &first = log[in_order ? 0 : 1], &second = log[in_order ? 1 : 0];
    EXPECT_EQ(first.stream, 0);
    EXPECT_EQ(second.stream, 1);
    EXPECT_LT(first.begin_ns, second.end_ns);
    EXPECT_LT(second.begin_ns, first.end_ns);
    for (const int32_t worker : first.workers)
      EXPECT_EQ(std::ranges::count(second.workers, worker), 0) << "worker " << worker << " ran both";
  }

  TestHost host;
  Argument x{std::vector<float>(8, 1)};
  const Floats expected = Floats(8, 12);
};

TEST_F(StrandsTest, StreamsRunAtOnceOnTheirOwnWorkers) {
  std::barrier<> both(2);
  meet("first", both, elementwise([](float v) { return v + 1; }));
  meet("second", both, elementwise([](float v) { return 10 * v; }));
  const auto executable = make(host, two_streams("", "waits(1)"));
  for (int i = 0; i < 3; ++i) {
    TaskLog::instance().start();
    EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), expected);
    const auto log = TaskLog::instance().stop();
    expect_meeting(log);
    EXPECT_EQ(log[2].waits, std::vector<int32_t>{1});
  }
}

TEST_F(StrandsTest, LimitsKeepTasksOnTheirOwnWorkers) {
  std::barrier<> both(2);
  std::mutex mutex;
  std::map<float, std::set<std::thread::id>> threads;
  const auto body = [&](float which) {
    return [&, which](ng_call& call) {
      EXPECT_EQ(call.host->workers, 1);
      struct Seen {
        std::mutex& mutex;
        std::set<std::thread::id>& threads;
      } seen{mutex, (std::lock_guard(mutex), threads[which])};
      const auto note = [](void* arg, int64_t, int64_t) {
        const std::lock_guard lock(static_cast<Seen*>(arg)->mutex);
        static_cast<Seen*>(arg)->threads.insert(std::this_thread::get_id());
      };
      for (int i = 0; i < 50; ++i) call.host->parallel_for(call.host, 0, 64, 1, note, &seen);
      for (int i = 0; i < 8; ++i) floats(call.buffers[1])[i] = which;
      return NG_OK;
    };
  };
  meet("first", both, body(1));
  meet("second", both, body(2));
  const auto executable = make(host, two_streams(" limits(1, 1)", "waits(1)", "limits(1, 1)"));
  TaskLog::instance().start();
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats(8, 3));
  const auto log = TaskLog::instance().stop();
  expect_meeting(log);
  EXPECT_EQ(log[0].limits,
            (std::vector<std::pair<std::string, int64_t>>{{"cube_core_num", 1}, {"vector_core_num", 1}}));
  EXPECT_EQ(threads[1].size(), 1u);
  EXPECT_EQ(threads[2].size(), 1u);
  EXPECT_NE(threads[1], threads[2]);
}

TEST_F(StrandsTest, AnEventOrdersStreams) {
  std::atomic<int> round{0};
  host.define("second", [&](ng_call& call) {
    for (int i = 0; i < 8; ++i) floats(call.buffers[1])[i] = static_cast<float>(round);
    return NG_OK;
  });
  host.define("first", elementwise([](float) { return 0.F; }));
  const auto executable = make(host, two_streams("", "waits(1)"));
  for (round = 0; round < 10'000; ++round) {
    ASSERT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats(8, static_cast<float>(round)));
  }
}

// `second` writes its result only after `sum` has read it.
TEST_F(StrandsTest, WithoutAnEventTheRaceIsThere) {
  std::barrier<> both(2);
  host.define("second", [&](ng_call& call) {
    both.arrive_and_wait();
    std::fill_n(floats(call.buffers[1]), 8, 10.F);
    return NG_OK;
  });
  host.define("sum", [&](ng_call& call) {
    const ng_status status = add(call);
    both.arrive_and_wait();
    return status;
  });
  const auto executable = make(host, two_streams("", ""));
  set_poison(true);
  const Floats raced = Results(*executable, host, {x.bound()}).values(0);
  set_poison(false);
  for (const float value : raced) EXPECT_NE(value, 12.F);
}

TEST_F(StrandsTest, AnErrorStopsTheOthersAndTheNextCallWorks) {
  std::atomic<bool> fails{true};
  std::atomic<int> sums{0};
  host.define("second", [&](ng_call& call) {
    if (fails) {
      call.host->set_error(call.host, "out of luck");
      return NG_ERROR;
    }
    return elementwise([](float v) { return 10 * v; })(call);
  });
  host.define("sum", [&](ng_call& call) {
    ++sums;
    return add(call);
  });
  const auto executable = make(host, two_streams("", "waits(1)"));
  {
    Results results(*executable, host, {x.bound()});
    EXPECT_EQ(results.result.status, RunStatus::kTaskFailed);
    EXPECT_EQ(results.result.task, 1);
    EXPECT_EQ(results.result.error, "out of luck");
  }
  EXPECT_EQ(sums, 0);
  EXPECT_EQ(host.live, 0);
  fails = false;
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), expected);
}

TEST_F(StrandsTest, ALimitHoldsOnOneStream) {
  std::set<std::thread::id> threads;
  host.define("increment", [&](ng_call& call) {
    EXPECT_EQ(call.host->workers, 1);
    const auto note = [](void* arg, int64_t, int64_t) {
      static_cast<std::set<std::thread::id>*>(arg)->insert(std::this_thread::get_id());
    };
    call.host->parallel_for(call.host, 0, 64, 1, note, &threads);
    return elementwise([](float v) { return v + 1; })(call);
  });
  host.define("double", [&](ng_call& call) {
    EXPECT_EQ(call.host->workers, 2);
    return elementwise([](float v) { return 2 * v; })(call);
  });
  std::string text = kChain;
  text.replace(text.find("\"increment\""), 11, "\"increment\" limits(0, 1)");
  const auto executable = make(host, text);
  Argument two({1, 2});
  EXPECT_EQ(Results(*executable, host, {two.bound()}).values(0), Floats({3, 5}));
  EXPECT_EQ(threads.size(), 1u);
}

TEST_F(StrandsTest, LimitsOfTheCallingStreamHoldWhereTheGraphHasNone) {
  std::set<int32_t> workers;
  const auto note = [&](ng_call& call) {
    workers.insert(call.host->workers);
    return elementwise([](float v) { return v + 1; })(call);
  };
  host.define("double", note);
  host.define("increment", note);
  for (const bool limited : {false, true}) {
    std::string text = kChain;
    if (limited) text.replace(text.find("\"increment\""), 11, "\"increment\" limits(2, 2)");
    const auto executable = make(host, text);
    const auto call = [&](CoreLimits limits) {
      workers.clear();
      Argument two({1, 2});
      EXPECT_EQ(Results(*executable, host, {two.bound()}, {.id = 7, .limits = limits}).values(0), Floats({3, 4}));
    };
    call({});
    EXPECT_EQ(workers, std::set<int32_t>{2});
    call({2, 1});
    EXPECT_EQ(workers, limited ? std::set<int32_t>({1, 2}) : std::set<int32_t>{1});
    call({2, 1});
    EXPECT_EQ(Observation(*executable).counters().recaptured_limits, 1);
    call({1, 0});  // a limit for products only
    EXPECT_EQ(workers, std::set<int32_t>{2});
    EXPECT_EQ(Observation(*executable).counters().recaptured_limits, 2);
    EXPECT_EQ(Observation(*executable).counters().captures, 3);
    EXPECT_EQ(Observation(*executable).instances().size(), 1u);
  }
}

TEST_F(StrandsTest, TasksOfTheFirstStreamAreLoggedUnderTheOneOfTheCall) {
  const std::string path = std::filesystem::temp_directory_path() / cat("strands_test_", getpid());
  record_running_tasks(path);
  std::string running;
  host.define("sum", [&](ng_call& call) {
    std::stringstream lines;  // one line for each thread, in the order of their first tasks
    lines << std::ifstream(path).rdbuf();
    running = lines.str();
    return add(call);
  });
  const auto executable = make(host, two_streams("", "waits(1)"));
  TaskLog::instance().start();
  EXPECT_EQ(Results(*executable, host, {x.bound()}, {.id = 7, .limits = {1, 1}}).values(0), expected);
  record_running_tasks("");
  std::filesystem::remove(path);
  EXPECT_NE(running.find("sum (kernel), stream 0 (id 7) of two"), std::string::npos) << running;
  for (const TaskRecord& record : TaskLog::instance().stop()) {
    EXPECT_EQ(record.stream_id, record.stream == 0 ? std::optional<int64_t>(7) : std::nullopt);
    EXPECT_EQ(record.limits.size(), record.stream == 0 ? 2u : 0u);
  }
}

TEST_F(StrandsTest, MoreStreamsThanWorkers) {
  std::string text = two_streams("", "stream(2) waits(0, 1)");
  const auto executable = make(host, text);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(Results(*executable, host, {x.bound()}).values(0), expected);
}

TEST_F(StrandsTest, WithOneWorkerTasksRunInTheirOrder) {
  WorkerPool::instance().set_size(1);
  const auto executable = make(host, two_streams("", "waits(1)"));
  TaskLog::instance().start();
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), expected);
  const auto log = TaskLog::instance().stop();
  for (int32_t t = 0; t < 3; ++t) EXPECT_EQ(log[t].task, t);
}

// If several threads call at once, one call has the workers, and the others run their tasks alone.
TEST_F(StrandsTest, CallsOfSeveralThreads) {
  const auto executable = make(host, two_streams("", "waits(1)"));
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      Argument own(std::vector<float>(8, 1));
      for (int call = 0; call < 500; ++call) EXPECT_EQ(Results(*executable, host, {own.bound()}).values(0), expected);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

// Each strand needs memory for two of its results at a time, and strands do not share memory.
TEST_F(StrandsTest, MemoryIsUsedAgainWithinAStrand) {
  std::string text = R"(npugraph.program 4 @chains {
  buffer b0 input(0) bytes(64) live(0, 5)
  buffer b1 arena bytes(64) live(0, 5)
  buffer b2 arena bytes(64) live(1, 5)
  buffer b3 arena bytes(64) live(2, 6)
  buffer b4 arena bytes(64) live(3, 4)
  buffer b5 arena bytes(64) live(4, 5)
  buffer b6 arena bytes(64) live(5, 6)
  buffer b7 output bytes(64) live(6, 6)
  input 0 "x" b0 : f32[16]{1}
)";
  const auto task = [&](int index, const std::string& words, const std::vector<int>& reads, int write) {
    text += "  task " + std::to_string(index) + " kernel " + words + " {\n";
    for (const int read : reads) text += "    read b" + std::to_string(read) + "+0 : f32[16]{1}\n";
    text += "    write b" + std::to_string(write) + "+0 : f32[16]{1}\n    args(%0)\n  }\n";
  };
  task(0, "\"first\" stream(1)", {0}, 1);
  task(1, "\"first\" stream(1)", {1}, 2);
  task(2, "\"first\" stream(1)", {2}, 3);
  task(3, "\"second\"", {0}, 4);
  task(4, "\"second\"", {4}, 5);
  task(5, "\"second\"", {5}, 6);
  task(6, "\"sum\" waits(2)", {3, 6}, 7);
  text += "  segment 7\n  output tensor b7+0 : f32[16]{1}\n}";
  const auto executable = make(host, text);
  Argument wide(std::vector<float>(16, 1));
  for (int i = 0; i < 200; ++i) ASSERT_EQ(Results(*executable, host, {wide.bound()}).values(0)[0], 4 + 1000) << i;
  EXPECT_EQ(Observation(*executable).memory().arena_bytes, 4 * 64);
}

// Workspaces of tasks that run at once do not overlap.
TEST_F(StrandsTest, EachTaskHasItsWorkspace) {
  std::barrier<> both(2);
  std::atomic<void*> first{nullptr}, second{nullptr};
  host.workspace("first", 4096);
  host.workspace("second", 4096);
  const auto note = [](std::atomic<void*>& place, TestHost::Body body) {
    return [&place, body](ng_call& call) {
      place = call.workspace;
      return body(call);
    };
  };
  meet("first", both, note(first, elementwise([](float v) { return v + 1; })));
  meet("second", both, note(second, elementwise([](float v) { return 10 * v; })));
  const auto executable = make(host, two_streams("", "waits(1)"));
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), expected);
  const auto distance = static_cast<char*>(first.load()) - static_cast<char*>(second.load());
  EXPECT_GE(std::abs(distance), 4096);
}

}  // namespace
}  // namespace npugraph::runtime
