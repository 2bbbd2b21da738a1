// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gtest/gtest.h>

#include "base/counters.h"
#include "runtime/memory/call_memory.h"
#include "runtime/memory/input_staging.h"
#include "runtime/options.h"
#include "runtime/runtime_test_util.h"
#include "runtime/watch/ledger.h"

namespace npugraph::runtime {
namespace {

Floats run(Executable& executable, TestHost& host, Argument& x) {
  return Results(executable, host, {x.bound()}).values(0);
}

TEST(CaptureRules, KeptResultsAreOverwritten) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain, {.rules = {.clone_output = false}});
  Argument x({1});
  Argument y({2});
  const Results first(*executable, host, {x.bound()});
  const Results second(*executable, host, {y.bound()});
  EXPECT_EQ(first.outputs[0].data, second.outputs[0].data);
  EXPECT_EQ(first.values(0), Floats({5}));
  EXPECT_EQ(host.allocations, 1);
}

TEST(CaptureRules, KeptResultsGoWithTheGraph) {
  TestHost host;
  define_chain(host);
  auto executable = make(host, kChain, {.rules = {.clone_output = false}});
  Argument x({1});
  run(*executable, host, x);
  EXPECT_EQ(host.live, 1);
  HeldMemory(*executable).trim();
  EXPECT_EQ(host.live, 0);
  run(*executable, host, x);
  executable.reset();
  EXPECT_EQ(host.live, 0);
}

TEST(CaptureRules, StagedInputsAreReadInTheArena) {
  TestHost host;
  const float* read = nullptr;
  host.define("double", [&](ng_call& call) {
    read = floats(call.buffers[0]);
    return elementwise([](float x) { return 2 * x; })(call);
  });
  host.define("increment", elementwise([](float x) { return x + 1; }));
  const auto executable = make(host, kChain, {.rules = {.clone_input = true}});
  Argument x({1, 2});
  EXPECT_EQ(run(*executable, host, x), Floats({3, 5}));
  EXPECT_NE(read, x.values.data());
  x.values[0] = 7;
  EXPECT_EQ(run(*executable, host, x), Floats({15, 5}));
  EXPECT_EQ(Observation(*executable).memory().copied_bytes_per_replay, 8);
}

TEST(CaptureRules, AHostThatCannotHoldMemoryFollowsTheCaller) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain, {.rules = {.clone_input = false}});
  Argument x({1});
  Argument y({2});
  EXPECT_EQ(run(*executable, host, x), Floats({3}));
  EXPECT_EQ(run(*executable, host, y), Floats({5}));
  EXPECT_EQ(x.values, Floats({1}));
}

TEST(CaptureRules, ALimitOfGraphsEndsCaptures) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain, {.rules = {.capture_limit = 2}}, {.counts_by_name = true});
  Argument one({1}), two({1, 1}), three({1, 1, 1});
  const auto captured = [] { return process_counters().at("captured_chain").value(); };
  const auto before = captured();
  run(*executable, host, one);
  run(*executable, host, two);
  EXPECT_EQ(captured() - before, 2);
  const Results results(*executable, host, {three.bound()});
  EXPECT_EQ(results.values(0), Floats({3, 3, 3}));
  EXPECT_TRUE(results.result.warning.starts_with("chain has 2 captured graphs, as many as capture_limit=2 allows"))
      << results.result.warning;
  EXPECT_EQ(captured() - before, 0);
  const Results later(*executable, host, {one.bound()});
  EXPECT_EQ(later.values(0), Floats({3}));
  EXPECT_EQ(later.result.warning, "");
  EXPECT_EQ(Observation(*executable).counters().captures, 2);
  EXPECT_EQ(Observation(*executable).counters().replays, 2);
  EXPECT_EQ(Observation(*executable).counters().eager_runs, 2);
  EXPECT_TRUE(Observation(*executable).instances().empty());
}

TEST(CaptureRules, ForcedCapturesReplaceTheInstance) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain, {.rules = {.force_recapture = true}});
  Argument x({1});
  for (int i = 0; i < 3; ++i) run(*executable, host, x);
  EXPECT_EQ(Observation(*executable).counters().captures, 3);
  EXPECT_EQ(Observation(*executable).counters().recaptured_forced, 2);
  EXPECT_EQ(Observation(*executable).instances().size(), 1u);
}

TEST(SharedPool, GraphsTakeTurnsWithOneBlock) {
  SharedPool first({0, 77}, "first");
  {
    SharedPool second({0, 77}, "second");
    auto block = first.take();
    block->arena.reserve(1000);
    auto other = second.take();  // at the same time
    EXPECT_NE(block.get(), other.get());
    second.give_back(std::move(other));
    const WorkingMemory* given = block.get();
    first.give_back(std::move(block));
    block = second.take();
    EXPECT_EQ(block.get(), given);
    EXPECT_GE(block->arena.capacity(), 1000);
    second.give_back(std::move(block));
    second.trim();
    EXPECT_NE(first.take().get(), nullptr);
  }
  const auto is_ours = [](const PoolInfo& pool) { return pool.name.starts_with("arena pool (0, 77)"); };
  const auto all = pools();
  EXPECT_EQ(std::ranges::count_if(all, is_ours), 1);  // the block that was taken last is destroyed with its caller
  first.trim();
  const auto left = pools();
  EXPECT_EQ(std::ranges::count_if(left, is_ours), 0);
}

TEST(InputStaging, CopiesElementsAndNothingBetweenThem) {
  const Floats from = {1, 2, 3, 4, 5, 6};
  Floats to(6, 0.0f);
  copy_elements(to.data(), from.data(), {3, 1}, {2, 1}, sizeof(float));
  EXPECT_EQ(to, Floats({1, 0, 3, 0, 5, 0}));
  copy_elements(to.data(), from.data(), {2, 3}, {1, 2}, sizeof(float));  // transposed, dense
  EXPECT_EQ(to, from);
  Floats one(6, 0.0f);
  copy_elements(one.data(), from.data(), {4, 2}, {0, 1}, sizeof(float));  // expanded
  EXPECT_EQ(one, Floats({1, 2, 0, 0, 0, 0}));
  copy_elements(one.data(), from.data() + 3, {0, 2}, {2, 1}, sizeof(float));
  copy_elements(one.data(), from.data() + 3, {}, {}, sizeof(float));
  EXPECT_EQ(one[0], 4);
}

}  // namespace
}  // namespace npugraph::runtime
