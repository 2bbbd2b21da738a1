// SPDX-License-Identifier: Apache-2.0
#include "runtime/watch/ledger.h"

#include <barrier>
#include <cmath>

#include <gtest/gtest.h>

#include "base/trace.h"
#include "runtime/runtime_test_util.h"
#include "runtime/threads/worker_pool.h"

namespace npugraph::runtime {
namespace {

TEST(TaskLog, RecordsEveryLaunch) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain);
  Argument x({1, 2});
  TaskLog& log = TaskLog::instance();
  EXPECT_FALSE(log.active());
  log.start();
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats({3, 5}));
  log.start();
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats({3, 5}));
  const auto inner = log.stop();
  const auto all = log.stop();
  EXPECT_FALSE(log.active());
  ASSERT_EQ(inner.size(), 2u);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].artifact, "chain");
  EXPECT_EQ(all[0].instance, "s0=2");
  EXPECT_EQ(all[0].name, "double");
  EXPECT_EQ(all[0].kind, "kernel");
  EXPECT_EQ(all[0].mode, RunMode::kCapture);
  EXPECT_EQ(inner[0].mode, RunMode::kReplay);
  EXPECT_EQ(all[1].task, 1);
  EXPECT_EQ(all[0].workers, std::vector<int32_t>{0});
  for (size_t i = 1; i < all.size(); ++i) {
    EXPECT_EQ(all[i].sequence, all[i - 1].sequence + 1);
    EXPECT_GE(all[i].begin_ns, all[i - 1].end_ns);
  }
  EXPECT_THROW(log.stop(), UserError);
}

TEST(TaskLog, RecordsALaunchThatFails) {
  TestHost host;
  define_chain(host);
  host.define("increment", [](ng_call&) { return NG_ERROR; });
  const auto executable = make(host, kChain);
  Argument x({1, 2});
  TaskLog::instance().start();
  EXPECT_EQ(Results(*executable, host, {x.bound()}).result.task, 1);
  const auto log = TaskLog::instance().stop();
  ASSERT_EQ(log.size(), 2u);
  EXPECT_EQ(log[1].name, "increment");
  EXPECT_GE(log[1].begin_ns, log[0].end_ns);
  EXPECT_GE(log[1].end_ns, log[1].begin_ns);
}

// Both threads must be in the body before either leaves it, so the worker takes part for certain.
TEST(TaskLog, NamesTheWorkersThatTookPart) {
  WorkerPool::instance().set_size(2);
  TestHost host;
  define_chain(host);
  host.define("increment", [](ng_call& call) {
    std::barrier<> both(2);
    const auto body = [](void* arg, int64_t, int64_t) { static_cast<std::barrier<>*>(arg)->arrive_and_wait(); };
    call.host->parallel_for(call.host, 0, 2, 1, body, &both);
    return NG_OK;
  });
  const auto executable = make(host, kChain);
  Argument x({1, 2});
  TaskLog::instance().start();
  Results(*executable, host, {x.bound()});
  const auto log = TaskLog::instance().stop();
  WorkerPool::instance().set_size(1);
  ASSERT_EQ(log.size(), 2u);
  EXPECT_EQ(log[0].workers, std::vector<int32_t>{0});
  EXPECT_EQ(log[1].workers, (std::vector<int32_t>{0, 1}));
}

TEST(Trace, HasASpanForEveryTask) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain);
  Argument x({1, 2});
  trace::start();
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats({3, 5}));
  const auto events = trace::stop();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].name, "double");
  EXPECT_EQ(events[1].category, "task");
}

// The task reads its result before it writes it, and keeps a pointer to the result, which is dead after the call.
TEST(Poison, ShowsReadsOfDeadMemory) {
  TestHost host;
  define_chain(host);
  float before_write = 0;
  float* dead = nullptr;
  host.define("double", [&](ng_call& call) {
    before_write = floats(call.buffers[1])[0];
    dead = floats(call.buffers[1]);
    return elementwise([](float x) { return 2 * x; })(call);
  });
  const auto executable = make(host, kChain);
  Argument x({1, 2});
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats({3, 5}));
  EXPECT_EQ(dead[0], 2);
  set_poison(true);
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats({3, 5}));
  set_poison(false);
  EXPECT_TRUE(std::isnan(before_write));
  EXPECT_TRUE(std::isnan(dead[0]));
}

// The second task leaves its result as it is, and the first one its workspace.
TEST(Poison, ShowsReadsOfMemoryThatNobodyWrote) {
  TestHost host;
  define_chain(host);
  float scratch = 0;
  host.workspace("double", 64);
  host.define("double", [&](ng_call& call) {
    scratch = *static_cast<float*>(call.workspace);
    *static_cast<float*>(call.workspace) = 7;
    return elementwise([](float x) { return 2 * x; })(call);
  });
  host.define("increment", [](ng_call&) { return NG_OK; });
  const auto executable = make(host, kChain);
  Argument x({1, 2});
  set_poison(true);
  for (int i = 0; i < 2; ++i) {
    for (const float value : Results(*executable, host, {x.bound()}).values(0)) EXPECT_TRUE(std::isnan(value));
    EXPECT_TRUE(std::isnan(scratch));
  }
  set_poison(false);
}

}  // namespace
}  // namespace npugraph::runtime
