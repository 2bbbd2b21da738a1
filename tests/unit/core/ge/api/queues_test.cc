// SPDX-License-Identifier: Apache-2.0
// What keeps runs in order, and changes apart from them.
#include <atomic>
#include <functional>

#include <gtest/gtest.h>

#include "ge/api/run/gate.h"
#include "ge/api/run/run_queue.h"

namespace npugraph::ge {
namespace {

TEST(Gate, ClosesWithoutWaitingForRuns) {
  Gate gate;
  Gate::Run run = gate.enter(false);
  ASSERT_NE(run, nullptr);
  EXPECT_EQ(gate.close_if_idle(), nullptr);
  run.reset();
  Gate::Change change = gate.close_if_idle();
  EXPECT_NE(change, nullptr);
  change.reset();
  EXPECT_NE(gate.close(), nullptr);
  EXPECT_NE(gate.enter(true), nullptr);
}

TEST(Gate, LetsNothingInWhenShut) {
  Gate gate;
  gate.shut();
  EXPECT_EQ(gate.enter(true), nullptr);
  EXPECT_EQ(gate.close(), nullptr);
  EXPECT_EQ(gate.close_if_idle(), nullptr);
}

// There is work in the queue at all times, each of which came after wait() or is waited for.
TEST(RunQueue, WaitsForWorkThatCameBefore) {
  std::atomic<bool> waited = false;
  RunQueue queue;
  std::atomic<int> done = 0;
  const std::function<void()> work = [&] {
    ++done;
    if (!waited) queue.add(work);
  };
  queue.add(work);
  queue.wait();
  EXPECT_GE(done, 1);
  waited = true;
  queue.wait();
}

}  // namespace
}  // namespace npugraph::ge
