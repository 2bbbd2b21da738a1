// SPDX-License-Identifier: Apache-2.0
// Errors leave nothing behind and the next call works.
#include <gtest/gtest.h>

#include "runtime/runtime_test_util.h"

namespace npugraph::runtime {
namespace {

TEST(Errors, FailingTaskStopsTheReplay) {
  TestHost host;
  define_chain(host);
  bool fails = true;
  host.define("increment", [&](ng_call& call) {
    if (fails) {
      call.host->set_error(call.host, "index 5 is out of range");
      return NG_ERROR;
    }
    return elementwise([](float x) { return x + 1; })(call);
  });
  const auto executable = make(host, kChain);
  Argument x({1});
  {
    const Results r(*executable, host, {x.bound()});
    EXPECT_EQ(r.result.status, RunStatus::kTaskFailed);
    EXPECT_EQ(r.result.error, "index 5 is out of range");
    EXPECT_EQ(r.result.task, 1);
    EXPECT_EQ(r.outputs[0].object, nullptr);
    EXPECT_EQ(host.live, 0);
  }
  fails = false;
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats({3}));
  EXPECT_EQ(executable->counters().replays, 1);
}

TEST(Errors, TaskThatSaysNothingIsNamed) {
  TestHost host;
  define_chain(host);
  host.define("double", [](ng_call&) { return NG_ERROR; });
  const auto executable = make(host, kChain);
  Argument x({1});
  const Results r(*executable, host, {x.bound()});
  EXPECT_EQ(r.result.error, "task 0 (double) failed");
}

TEST(Errors, RefusedSizesAreNamedAndNotKept) {
  TestHost host;
  define_chain(host);
  host.on_bind("increment", [](ng_call& call) { return call.buffers[0].sizes[0] > 2 ? NG_ERROR : NG_OK; });
  const auto executable = make(host, kChain);
  Argument three({1, 2, 3});
  Argument one({1});
  const Results r(*executable, host, {three.bound()});
  EXPECT_EQ(r.result.error, "increment cannot be bound to these sizes: s0=3");
  EXPECT_EQ(r.result.task, 1);
  EXPECT_EQ(Results(*executable, host, {one.bound()}).values(0), Floats({3}));
  EXPECT_EQ(executable->instances().size(), 1u);
}

TEST(Errors, SizesOutOfTheirBoundsAreNamed) {
  TestHost host;
  define_chain(host);
  std::string text(kChain);
  text.replace(text.find("int = size"), 3, "int [2, 4]");
  const auto executable = make(host, text);
  Argument one({1});
  Argument two({1, 2});
  const Results r(*executable, host, {one.bound()});
  EXPECT_EQ(r.result.status, RunStatus::kInputRefused);
  EXPECT_NE(r.result.error.find("size 0 of input L['x'] is 1; the Program is compiled for [2, 4]"), std::string::npos)
      << r.result.error;
  EXPECT_THROW(executable->prepare({.all = std::vector{one.bound()}}), UserError);
  EXPECT_EQ(Results(*executable, host, {two.bound()}).values(0), Floats({3, 5}));
  EXPECT_EQ(executable->instances().size(), 1u);
}

TEST(Errors, InputWithoutMemoryIsNamed) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain);
  Argument x({1});
  BoundInput freed = x.bound();
  freed.data = nullptr;
  for (int i = 0; i < 2; ++i) {
    const Results r(*executable, host, {freed});
    EXPECT_EQ(r.result.status, RunStatus::kTaskFailed);
    EXPECT_NE(r.result.error.find("L['x']"), std::string::npos) << r.result.error;
  }
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats({3}));
}

TEST(Errors, OverflowInASizeIsAnError) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain);
  Argument x({1});
  x.sizes[0] = int64_t{1} << 62;
  const Results r(*executable, host, {x.bound()});
  EXPECT_EQ(r.result.status, RunStatus::kTaskFailed);
  EXPECT_FALSE(r.result.error.empty());
}

// The window of task 0 is larger than its buffer for all sizes above 4.
TEST(Errors, WindowOutsideOfItsBufferIsRefused) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, R"(npugraph.program 4 @outside {
    symbol s0 : int = size(0, 0)
    buffer b0 input(0) live(0, 0)
    buffer b1 output bytes(16) live(0, 0)
    input 0 "x" b0 : f32[s0]{1}
    task 0 kernel "double" {
      read b0+0 : f32[s0]{1}
      write b1+0 : f32[s0]{1}
      args(%0)
    }
    segment 1
    output tensor b1+0 : f32[4]{1}
  })");
  Argument four({1, 2, 3, 4});
  Argument five({1, 2, 3, 4, 5});
  EXPECT_EQ(Results(*executable, host, {four.bound()}).result.status, RunStatus::kOk);
  const Results r(*executable, host, {five.bound()});
  EXPECT_EQ(r.result.status, RunStatus::kTaskFailed);
  EXPECT_NE(r.result.error.find("task 0 (double)"), std::string::npos) << r.result.error;
}

}  // namespace
}  // namespace npugraph::runtime
