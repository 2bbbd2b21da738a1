// SPDX-License-Identifier: Apache-2.0
// Memory that tasks allocate themselves, and sizes that tasks define.
#include <gtest/gtest.h>

#include "runtime/runtime_test_util.h"

namespace npugraph::runtime {
namespace {

// Allocates an object that holds `values`, and stores it in buffer `operand` of a call.
void adopt(TestHost& host, ng_call& call, size_t operand, const Floats& values) {
  ng_buffer& buffer = call.buffers[operand];
  buffer.object = host.allocate(static_cast<int64_t>(4 * values.size()), &buffer.data);
  std::copy(values.begin(), values.end(), floats(buffer));
}

constexpr const char* kAdopted = R"(npugraph.program 4 @adopted {
  symbol s0 : int = size(0, 0)
  buffer b0 input(0) live(0, 0)
  buffer b1 heap live(0, 1)
  buffer b2 heap preallocated bytes(4*s0) live(1, 2)
  buffer b3 heap live(2, 2)
  input 0 "x" b0 : f32[s0]{1}
  task 0 aten "make" {
    read b0+0 : f32[s0]{1}
    write b1+0 : f32[s0]{1}
    args(%0)  results(1)
  }
  task 1 kernel "double" {
    read b1+0 : f32[s0]{1}
    write b2+0 : f32[s0]{1}
    args(%0)
    releases(b1)
  }
  task 2 aten "make" {
    read b2+0 : f32[s0]{1}
    write b3+0 : f32[s0]{1}
    args(%0)  results(1)
    releases(b2)
  }
  segment 3
  output tensor b3+0 : f32[s0]{1}
  output tensor b3+4 : f32[1]{1}
})";

TEST(Heap, TaskAllocatesAndTheRuntimeReleases) {
  TestHost host;
  define_chain(host);
  std::vector<int> live;
  host.define("make", [&](ng_call& call) {
    EXPECT_EQ(call.buffers[1].data, nullptr);
    EXPECT_EQ(call.buffers[1].object, nullptr);
    live.push_back(host.live);
    Floats values(floats(call.buffers[0]), floats(call.buffers[0]) + call.buffers[0].sizes[0]);
    for (float& v : values) v += 1;
    adopt(host, call, 1, values);
    return NG_OK;
  });
  const auto executable = make(host, kAdopted);
  Argument x({1, 2});
  for (int i = 0; i < 2; ++i) {
    const Results r(*executable, host, {x.bound()});
    ASSERT_EQ(r.result.status, RunStatus::kOk) << r.result.error;
    EXPECT_EQ(r.values(0), Floats({5, 7}));
    EXPECT_TRUE(r.outputs[0].whole);  // the object is exactly the result
    EXPECT_FALSE(r.outputs[1].whole);
    EXPECT_EQ(r.outputs[1].object, r.outputs[0].object);
  }
  EXPECT_EQ(live, std::vector<int>({0, 1, 0, 1}));  // b1 is gone when task 2 starts
  EXPECT_EQ(host.live, 0);
  EXPECT_EQ(Observation(*executable).memory().heap_bytes, 16);  // at most two objects of 8 bytes at a time
}

TEST(Heap, NothingLeaksWhenALaterTaskFails) {
  TestHost host;
  host.define("make", [&](ng_call& call) {
    adopt(host, call, 1, {1, 2});
    return NG_OK;
  });
  host.define("double", [](ng_call&) { return NG_ERROR; });
  const auto executable = make(host, kAdopted);
  Argument x({1, 2});
  EXPECT_EQ(Results(*executable, host, {x.bound()}).result.task, 1);
  EXPECT_EQ(host.live, 0);
}

TEST(Heap, TaskThatStoresNothingIsAnError) {
  TestHost host;
  define_chain(host);
  host.define("make", [](ng_call&) { return NG_OK; });
  const auto executable = make(host, kAdopted);
  Argument x({1, 2});
  EXPECT_EQ(Results(*executable, host, {x.bound()}).result.error, "task 0 (make) stored no object for a result");
}

// Task 0 returns the positive elements and defines their number, u0. Task 1 defines their sum, u1, as a scalar. Task 2
// multiplies the elements by u1.
constexpr const char* kSegments = R"(npugraph.program 4 @segments {
  symbol s0 : int = size(0, 0)
  symbol u0 : int = task(0)
  symbol u1 : float = task(1)
  buffer b0 input(0) live(0, 0)
  buffer b1 heap live(0, 2)
  buffer b2 output bytes(4*u0) live(2, 2)
  input 0 "x" b0 : f32[s0]{1}
  task 0 aten "positive" {
    read b0+0 : f32[s0]{1}
    write b1+0 : f32[u0]{1}
    args(%0)  results(1)  defines(u0 = size(1, 0))
  }
  task 1 aten "sum" {
    read b1+0 : f32[u0]{1}
    args(%0)  defines(u1 = result(0))
  }
  task 2 kernel "scale" {
    read b1+0 : f32[u0]{1}
    write b2+0 : f32[u0]{1}
    args(%0, u1)
    releases(b1)
  }
  segment 1
  segment 2
  segment 3
  output tensor b2+0 : f32[u0]{1}
  output scalar u0 + s0 : int
})";

class Segments : public testing::Test {
 protected:
  Segments() {
    host.define("positive", [this](ng_call& call) {
      Floats found;
      for (int64_t i = 0; i < call.buffers[0].sizes[0]; ++i) {
        if (floats(call.buffers[0])[i] > 0) found.push_back(floats(call.buffers[0])[i]);
      }
      adopt(host, call, 1, found);
      call.defined[0].i = static_cast<int64_t>(found.size());
      return NG_OK;
    });
    host.define("sum", [](ng_call& call) {
      call.defined[0].f = 0;
      for (int64_t i = 0; i < call.buffers[0].sizes[0]; ++i) call.defined[0].f += floats(call.buffers[0])[i];
      return NG_OK;
    });
    host.define("scale", [](ng_call& call) {
      for (int64_t i = 0; i < call.buffers[1].sizes[0]; ++i) {
        floats(call.buffers[1])[i] = static_cast<float>(floats(call.buffers[0])[i] * call.scalars[0].f);
      }
      return NG_OK;
    });
    executable = make(host, kSegments);
  }

  TestHost host;
  std::unique_ptr<Executable> executable;
};

TEST_F(Segments, SizesFollowTheData) {
  const auto expect = [&](Floats x, const Floats& y) {
    Argument argument(x);
    const Results r(*executable, host, {argument.bound()});
    ASSERT_EQ(r.result.status, RunStatus::kOk) << r.result.error;
    EXPECT_EQ(r.values(0), y);
    EXPECT_EQ(r.outputs[1].scalar.i, static_cast<int64_t>(y.size() + x.size()));
  };
  expect({1, -1, 2}, {3, 6});
  expect({1, -1, -2}, {1});
  expect({-1, -1, -2}, {});
  expect({1, 2, 3}, {6, 12, 18});
  EXPECT_EQ(host.live, 0);
}

TEST_F(Segments, BindsAnewOnlyWhatChanged) {
  const auto run = [&](Floats x) {
    Argument argument(std::move(x));
    EXPECT_EQ(Results(*executable, host, {argument.bound()}).result.status, RunStatus::kOk);
  };
  run({1, -1, 2});
  run({1, -1, 2});  // nothing changed
  EXPECT_EQ(host.binds("sum"), 1);
  EXPECT_EQ(host.binds("scale"), 1);
  run({3, -1, 2});  // u0 is the same, u1 is not
  EXPECT_EQ(host.binds("sum"), 1);
  EXPECT_EQ(host.binds("scale"), 2);
  run({3, -1, -2});
  EXPECT_EQ(host.binds("sum"), 2);
  EXPECT_EQ(host.binds("scale"), 3);
  EXPECT_EQ(host.binds("positive"), 1);
  const Counters counters = Observation(*executable).counters();
  EXPECT_EQ(counters.recaptured_new_symbols, 2);
  EXPECT_EQ(counters.captures, 3);
  EXPECT_EQ(counters.instance_misses, 1);
  EXPECT_EQ(Observation(*executable).traffic()[2].bytes_read, 4);
}

// A task that failed to bind is bound again at the next call, although the symbols have the same values.
TEST_F(Segments, FailedBindIsTriedAgain) {
  bool refuses = true;
  host.on_bind("scale", [&](ng_call&) { return refuses ? NG_ERROR : NG_OK; });
  Argument x({1, 2});
  EXPECT_EQ(Results(*executable, host, {x.bound()}).result.task, 2);
  EXPECT_EQ(host.live, 0);
  refuses = false;
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats({3, 6}));
}

TEST_F(Segments, WorkspaceGrowsBetweenSegments) {
  host.workspace("scale", 1 << 16);
  Argument x({1, 2});
  Argument y({1, 2, 3});
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats({3, 6}));
  host.workspace("scale", 1 << 20);
  EXPECT_EQ(Results(*executable, host, {y.bound()}).values(0), Floats({6, 12, 18}));
  EXPECT_EQ(Observation(*executable).memory().scratch_bytes, 1 << 20);
}

// Values that are not strided memory are passed as objects.
TEST(Heap, OpaqueValuesAreCarriedAsObjects) {
  TestHost host;
  host.define("pack", [&](ng_call& call) {
    void* ignored = nullptr;
    call.buffers[1].object = host.allocate(0, &ignored);
    return NG_OK;
  });
  void* seen = nullptr;
  host.define("unpack", [&](ng_call& call) {
    seen = call.buffers[0].object;
    floats(call.buffers[1])[0] = 7;
    return NG_OK;
  });
  const auto executable = make(host, R"(npugraph.program 4 @opaque {
    buffer b0 input(0) live(0, 0)
    buffer b1 heap opaque live(0, 1)
    buffer b2 output bytes(4) live(1, 1)
    input 0 "x" b0 : f32[1]{1}
    task 0 aten "pack" {
      read b0+0 : f32[1]{1}
      write b1+0 : f32[]{}
      args(%0)  results(1)
    }
    task 1 aten "unpack" {
      read b1+0 : f32[]{}
      write b2+0 : f32[1]{1}
      args(%0)
    }
    segment 2
    output tensor b2+0 : f32[1]{1}
    output tensor b1+0 : f32[]{}
  })");
  Argument x({1});
  {
    const Results r(*executable, host, {x.bound()});
    ASSERT_EQ(r.result.status, RunStatus::kOk) << r.result.error;
    EXPECT_EQ(r.values(0), Floats({7}));
    EXPECT_EQ(r.outputs[1].object, seen);
    EXPECT_TRUE(r.outputs[1].whole);
    EXPECT_EQ(r.outputs[1].data, nullptr);
  }
  EXPECT_EQ(host.live, 0);
}

}  // namespace
}  // namespace npugraph::runtime
