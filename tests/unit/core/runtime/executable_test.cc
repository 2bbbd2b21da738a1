// SPDX-License-Identifier: Apache-2.0
#include "runtime/executable.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "runtime/runtime_test_util.h"
#include "runtime/watch/ledger.h"

namespace npugraph::runtime {
namespace {

TEST(Executable, RunsTasksInOrder) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain);
  Argument x({1, 2, 3});
  const Results results(*executable, host, {x.bound()});
  EXPECT_EQ(results.result.status, RunStatus::kOk);
  EXPECT_EQ(results.values(0), Floats({3, 5, 7}));
  EXPECT_EQ(results.sizes[0], Ints({3}));
}

TEST(Executable, FollowsInputsThatMove) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain);
  Argument x({1, 2, 3});
  Argument y({4, 5, 6});
  for (Argument* argument : {&x, &y, &x}) {
    const Results results(*executable, host, {argument->bound()});
    EXPECT_EQ(results.values(0)[0], 2 * argument->values[0] + 1);
  }
  EXPECT_EQ(Observation(*executable).counters().captures, 1);
  EXPECT_EQ(Observation(*executable).counters().replays, 3);
  EXPECT_EQ(Observation(*executable).counters().instance_hits, 2);
}

TEST(Executable, ResultsAreFreshAndOwnedByTheCaller) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain);
  Argument x({1});
  {
    const Results first(*executable, host, {x.bound()});
    const Results second(*executable, host, {x.bound()});
    EXPECT_NE(first.outputs[0].data, second.outputs[0].data);
    EXPECT_EQ(host.live, 2);
  }
  EXPECT_EQ(host.live, 0);
}

TEST(Executable, ZeroSizesRun) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain);
  Argument empty(Floats{});
  BoundInput input = empty.bound();
  input.data = nullptr;
  const Results results(*executable, host, {input});
  EXPECT_EQ(results.result.status, RunStatus::kOk);
  EXPECT_EQ(results.sizes[0], Ints({0}));
}

TEST(Executable, EachSizeIsOneInstanceAndTheOldestIsDropped) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain, {.max_instances = 2});
  const auto call = [&](size_t size) {
    Argument x(Floats(size, 1.0f));
    const Results results(*executable, host, {x.bound()});
    EXPECT_EQ(results.values(0), Floats(size, 3.0f));
  };
  for (const size_t size : {1, 2, 3, 2, 1}) call(size);
  const Counters counters = Observation(*executable).counters();
  EXPECT_EQ(counters.captures, 4);
  EXPECT_EQ(counters.instance_hits, 1);
  EXPECT_EQ(counters.recaptured_evicted, 1);
  const auto instances = Observation(*executable).instances();
  ASSERT_EQ(instances.size(), 2u);
  EXPECT_EQ(instances[0].key, "s0=1");
  EXPECT_EQ(instances[1].key, "s0=2");
  EXPECT_EQ(instances[1].replays, 2);
  EXPECT_EQ(instances[1].symbols[0].first, "s0");
  EXPECT_EQ(instances[1].symbols[0].second, Scalar::of_int(2));
}

TEST(Executable, ANewSizeBuildsNoTask) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain);
  EXPECT_EQ(host.builds, 2);
  for (const size_t size : {2, 5, 3}) {
    Argument x(Floats(size, 1.0f));
    EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats(size, 3.0f));
  }
  EXPECT_EQ(Observation(*executable).counters().captures, 3);
  EXPECT_EQ(host.builds, 2);
}

TEST(Executable, CountsCopiesThatNoTaskDeclares) {
  TestHost host;
  define_chain(host);
  int64_t staged = 100;
  host.define("double", [&](ng_call& call) {
    call.host->count_copied(call.host, staged);
    call.host->count_copied(call.host, 1);
    return elementwise([](float x) { return 2 * x; })(call);
  });
  const auto executable = make(host, kChain);
  Argument x({1});
  const std::vector<BoundInput> inputs = {x.bound()};
  std::vector<BoundOutput> outputs(1);
  std::vector<int64_t> dims;
  const auto run = [&](int64_t bytes) {
    executable->run({.all = inputs, .staged_bytes = bytes}, outputs, dims);
    host.release(outputs[0].object);
    return Observation(*executable).memory().copied_bytes_per_replay;
  };
  EXPECT_EQ(run(0), 101);
  EXPECT_EQ(run(30), 131);
  staged = 0;
  EXPECT_EQ(run(0), 1);
}

TEST(Executable, WithoutCaptureEveryCallBindsAnew) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain, {.capture = false});
  Argument x({1});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats({3}));
  EXPECT_EQ(host.binds("double"), 3);
  const Counters counters = Observation(*executable).counters();
  EXPECT_EQ(counters.eager_runs, 3);
  EXPECT_EQ(counters.captures + counters.capture_ns + counters.replays + counters.recaptured_forced, 0);
  EXPECT_EQ(counters.instance_hits + counters.instance_misses, 0);
  EXPECT_TRUE(Observation(*executable).instances().empty());
}

// Records when ranges begin and end.
class ProfilingHost : public TestHost {
 public:
  void* begin_range(const char* name) override {
    ranges += cat(name, "(");
    return this;
  }
  void end_range(void*) override { ranges += ")"; }
  std::string ranges;
};

TEST(Executable, NamesWhatItDoesForProfilers) {
  ProfilingHost host;
  define_chain(host);
  const auto captured = make(host, kChain, {.label = "call"});
  Argument x({1});
  for (int i = 0; i < 2; ++i) Results(*captured, host, {x.bound()});
  EXPECT_EQ(host.ranges, "call(capture()warm_up(replay(double()increment())))call(replay(double()increment()))");
  host.ranges = "";
  Results(*make(host, kChain, {.capture = false}), host, {x.bound()});
  EXPECT_EQ(host.ranges, "eager_run(double()increment())");
}

TEST(Executable, ReportsMemoryAndTraffic) {
  TestHost host;
  define_chain(host);
  host.workspace("double", 1000);
  const auto executable = make(host, kChain);
  EXPECT_EQ(Observation(*executable).traffic()[0].bytes_read, 0);
  Argument x(Floats(100, 1.0f));
  const Results results(*executable, host, {x.bound()});
  const MemoryInfo memory = Observation(*executable).memory();
  EXPECT_EQ(memory.live_bytes, 448);    // 400 bytes in whole cache lines
  EXPECT_EQ(memory.arena_bytes, 1472);  // plus 1000 bytes of workspace, in whole cache lines
  EXPECT_EQ(memory.lower_bound_bytes, 1472);
  EXPECT_EQ(memory.heap_bytes, 400);
  EXPECT_EQ(memory.scratch_bytes, 0);
  EXPECT_EQ(memory.bound_bytes_per_call, 400);
  EXPECT_EQ(memory.copied_bytes_per_replay, 0);
  EXPECT_EQ(Observation(*executable).traffic()[1].bytes_read, 400);
  EXPECT_EQ(Observation(*executable).traffic()[1].bytes_written, 400);
}

TEST(Executable, WorkspaceIsAlignedAndFollowsTheLargest) {
  TestHost host;
  define_chain(host);
  host.workspace("double", 100);
  void* workspace = nullptr;
  host.define("double", [&](ng_call& call) {
    workspace = call.workspace;
    return elementwise([](float x) { return 2 * x; })(call);
  });
  const auto executable = make(host, kChain);
  Argument x({1});
  const Results results(*executable, host, {x.bound()});
  ASSERT_NE(workspace, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(workspace) % 64, 0u);
}

TEST(Executable, TrimFreesEverythingIdle) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain);
  Argument x({1, 2});
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats({3, 5}));
  EXPECT_FALSE(pools().empty());
  HeldMemory(*executable).trim();
  EXPECT_TRUE(pools().empty());
  EXPECT_TRUE(Observation(*executable).instances().empty());
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats({3, 5}));
}

// Instances share one arena. If a larger one makes it grow, the smaller one moves to the new memory.
TEST(Executable, SmallerInstanceFollowsAnArenaThatGrew) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain);
  for (const size_t size : {10, 5'000'000, 10}) {
    Argument x(Floats(size, 1.0f));
    EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats(size, 3.0f));
  }
  const auto all = pools();
  const auto arena = std::ranges::find(all, "arena chain#0", &PoolInfo::name);
  ASSERT_NE(arena, all.end());
  EXPECT_EQ(arena->owners, std::vector<std::string>{"chain"});
  EXPECT_GE(arena->live_bytes, 20'000'000);
  EXPECT_EQ(arena->live_bytes, arena->peak_bytes);
  ASSERT_EQ(arena->history.size(), 3u);
  EXPECT_EQ(arena->history[0].what, "lease");
  EXPECT_EQ(arena->history[2].what, "grow");
}

TEST(Executable, InvalidProgramIsRefused) {
  TestHost host;
  auto program = std::make_shared<program::Program>();
  program->tasks.resize(1);
  EXPECT_THROW(Executable(program, host, host.maker(), {}, "broken"), UserError);
}

TEST(Executable, UnknownTaskIsRefused) {
  TestHost host;
  EXPECT_THROW(make(host, kChain), UserError);
}

// y = x * (n + 1) + m over f32[s0]. Task 0, whose kind the test chooses, gets n + 1; task 1, a kernel, gets m.
constexpr const char* kToldNumbers = R"(npugraph.program 4 @told {
  symbol s0 : int = size(0, 0)
  symbol n : int = input(1)
  symbol m : int = input(2)
  buffer b0 input(0) live(0, 0)
  buffer b1 arena bytes(4*s0) live(0, 1)
  buffer b2 output bytes(4*s0) live(1, 1)
  input 0 "L['x']" b0 : f32[s0]{1}
  input 1 "L['n']" scalar
  input 2 "L['m']" scalar
  task 0 KIND "scale" {
    read b0+0 : f32[s0]{1}
    write b1+0 : f32[s0]{1}
    args(%0, n + 1)
  }
  task 1 kernel "shift" {
    read b1+0 : f32[s0]{1}
    write b2+0 : f32[s0]{1}
    args(%0, m)
  }
  segment 2
  output tensor b2+0 : f32[s0]{1}
})";

class ToldNumbers : public ::testing::Test {
 protected:
  ToldNumbers() {
    host.define("scale", [](ng_call& call) {
      return elementwise([&](float x) { return x * static_cast<float>(call.scalars[0].i); })(call);
    });
    host.define("shift", [](ng_call& call) {
      return elementwise([&](float x) { return x + static_cast<float>(call.scalars[0].i); })(call);
    });
  }

  std::unique_ptr<Executable> of_kind(const std::string& kind) {
    std::string text = kToldNumbers;
    return make(host, text.replace(text.find("KIND"), 4, kind));
  }

  Floats call(Executable& executable, int64_t n, int64_t m) {
    Argument x({1, 2});
    BoundInput of_n{.scalar = {.i = n}}, of_m{.scalar = {.i = m}};
    const Results results(executable, host, {x.bound(), of_n, of_m});
    if (results.result.status == RunStatus::kOk) return results.values(0);
    error = results.result.error;
    return {};
  }

  TestHost host;
  std::string error;
};

TEST_F(ToldNumbers, AreNoReasonToCapture) {
  const auto executable = of_kind("aten");
  EXPECT_EQ(call(*executable, 2, 5), Floats({8, 11}));
  EXPECT_EQ(call(*executable, 4, 5), Floats({10, 15}));
  EXPECT_EQ(call(*executable, 4, 5), Floats({10, 15}));
  EXPECT_EQ(call(*executable, 2, 5), Floats({8, 11}));
  EXPECT_EQ(host.binds("scale"), 3);
  EXPECT_EQ(host.binds("shift"), 1);
  const Counters counters = Observation(*executable).counters();
  EXPECT_EQ(counters.captures, 1);
  EXPECT_EQ(counters.refreshes, 2);
  EXPECT_EQ(Observation(*executable).instances()[0].key, "s0=2, m=5");
}

TEST_F(ToldNumbers, OfKernelsTellInstancesApart) {
  const auto executable = of_kind("aten");
  EXPECT_EQ(call(*executable, 2, 5), Floats({8, 11}));
  EXPECT_EQ(call(*executable, 3, 6), Floats({10, 14}));
  EXPECT_EQ(call(*executable, 4, 5), Floats({10, 15}));
  EXPECT_EQ(Observation(*executable).counters().captures, 2);
  const auto kernels = of_kind("kernel");
  for (const int64_t n : {2, 4}) call(*kernels, n, 5);
  EXPECT_EQ(Observation(*kernels).counters().captures, 2);
  EXPECT_EQ(Observation(*kernels).counters().refreshes, 0);
}

TEST_F(ToldNumbers, ThatATaskRefusesAreForgotten) {
  const auto executable = of_kind("aten");
  EXPECT_EQ(call(*executable, 2, 5), Floats({8, 11}));
  host.on_bind("scale", [](ng_call& call) { return call.scalars[0].i < 0 ? NG_ERROR : NG_OK; });
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(call(*executable, -3, 5), Floats());
    EXPECT_EQ(error, "scale cannot be bound to these sizes: s0=2, m=5");
  }
  EXPECT_EQ(call(*executable, 2, 5), Floats({8, 11}));
  EXPECT_EQ(Observation(*executable).counters().captures, 1);
}

TEST_F(ToldNumbers, AreThoseOfEachCallWithoutCapture) {
  const auto executable = make(
      host, std::string(kToldNumbers).replace(std::string(kToldNumbers).find("KIND"), 4, "aten"), {.capture = false});
  EXPECT_EQ(call(*executable, 2, 5), Floats({8, 11}));
  EXPECT_EQ(call(*executable, 4, 5), Floats({10, 15}));
}

}  // namespace
}  // namespace npugraph::runtime
