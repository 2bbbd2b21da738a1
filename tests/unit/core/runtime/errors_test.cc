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
  EXPECT_EQ(Observation(*executable).counters().replays, 1);
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
  EXPECT_EQ(Observation(*executable).instances().size(), 1u);
}

// x + y over f32[s0, s0] and f32[s0], of an even size.
constexpr const char* kEqualSizes = R"(npugraph.program 4 @equal {
  symbol s0 : int = size(0, 0)
  buffer b0 input(0) live(0, 0)
  buffer b1 input(1)
  buffer b2 output bytes(4*s0) live(0, 0)
  input 0 "L['x']" b0 : f32[s0, s0]{s0, 1}
  input 1 "L['y']" b1 : f32[s0]{1}
  require eq(0, mod(s0, 2))
  task 0 kernel "double" {
    read b0+0 : f32[s0]{1}
    write b2+0 : f32[s0]{1}
    args(%0)
  }
  segment 1
  output tensor b2+0 : f32[s0]{1}
})";

class EqualSizes : public ::testing::Test {
 protected:
  EqualSizes() {
    define_chain(host_);
    executable_ = make(host_, kEqualSizes);
  }
  // The error of a call with these sizes and strides of x, and this size of y.
  std::string error(Ints sizes, Ints strides, int64_t of_y) {
    std::vector<float> memory(256);
    const BoundInput x{.data = memory.data(), .object = this, .sizes = sizes.data(), .strides = strides.data()};
    const BoundInput y{.data = memory.data() + 128, .object = this, .sizes = &of_y};
    const Results r(*executable_, host_, {x, y});
    EXPECT_EQ(r.result.status, r.result.error.empty() ? RunStatus::kOk : RunStatus::kInputRefused);
    return r.result.error;
  }

  TestHost host_;
  std::unique_ptr<Executable> executable_;
};

TEST_F(EqualSizes, AreComparedAtEachCall) {
  for (int call = 0; call < 2; ++call) {
    EXPECT_EQ(error({4, 4}, {4, 1}, 4), "");
    EXPECT_EQ(error({4, 6}, {6, 1}, 4),
              "input 0 (L['x']) has sizes [4, 6]; the graph was compiled for [s0, s0] with s0=4");
    EXPECT_EQ(error({4, 4}, {4, 1}, 2), "input 1 (L['y']) has sizes [2]; the graph was compiled for [s0] with s0=4");
    EXPECT_EQ(error({4, 4}, {8, 1}, 4),
              "input 0 (L['x']) has strides [8, 1]; the graph was compiled for [s0, 1] with s0=4");
  }
}

TEST_F(EqualSizes, StridesOfOneElementDoNotCount) { EXPECT_EQ(error({0, 0}, {7, 1}, 0), ""); }

TEST_F(EqualSizes, AndConditionsAreNamed) {
  EXPECT_EQ(error({3, 3}, {3, 1}, 3),
            "the graph was compiled for inputs of which eq(0, mod(s0, 2)) is true, but s0 (size 0 of input 0 (L['x'])) "
            "is 3");
  EXPECT_EQ(error({2, 2}, {2, 1}, 2), "");
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
  EXPECT_NE(r.result.error.find("size 0 of input 0 (L['x']) is 1; the graph was compiled for [2, 4]"),
            std::string::npos)
      << r.result.error;
  EXPECT_THROW(executable->prepare({.all = std::vector{one.bound()}}), UserError);
  EXPECT_EQ(Results(*executable, host, {two.bound()}).values(0), Floats({3, 5}));
  EXPECT_EQ(Observation(*executable).instances().size(), 1u);
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
