// SPDX-License-Identifier: Apache-2.0
// Outputs of calls: windows, shared objects, inputs, constants, scalars.
#include <gtest/gtest.h>

#include "runtime/runtime_test_util.h"

namespace npugraph::runtime {
namespace {

constexpr const char* kMany = R"(npugraph.program 4 @many {
  symbol s0 : int = size(0, 0)
  symbol f0 : float = input(1)
  buffer b0 input(0) live(0, 0)
  buffer b1 output bytes(8*s0) live(0, 0)
  input 0 "L['x']" b0 : f32[s0]{1}
  input 1 "L['f']" scalar
  task 0 kernel "twice" {
    read b0+0 : f32[s0]{1}
    write b1+0 : f32[s0, 2]{2, 1}
    args(%0)
  }
  segment 1
  output tensor b1+0 : f32[s0, 2]{2, 1}
  output tensor b1+4 : f32[s0]{2}
  output input 0
  output tensor b0+0 : f32[s0]{1}
  output scalar 4*s0 : int
  output scalar f0 : float
  output none
  output tensor b0+4 : f32[1]{1}
})";

TEST(Outputs, EveryKind) {
  TestHost host;
  host.define("twice", [](ng_call& call) {
    for (int64_t i = 0; i < 2 * call.buffers[0].sizes[0]; ++i)
      floats(call.buffers[1])[i] = floats(call.buffers[0])[i / 2] + i % 2;
    return NG_OK;
  });
  const auto executable = make(host, kMany);
  Argument x({10, 20});
  BoundInput number;
  number.scalar.f = 1.5;
  {
    const Results r(*executable, host, {x.bound(), number});
    ASSERT_EQ(r.result.status, RunStatus::kOk) << r.result.error;
    EXPECT_EQ(r.sizes[0], Ints({2, 2}));
    EXPECT_EQ(r.values(0), Floats({10, 11, 20, 21}));
    EXPECT_FALSE(r.outputs[0].whole);

    // Two windows of one object hold a reference each.
    EXPECT_EQ(r.outputs[1].object, r.outputs[0].object);
    EXPECT_EQ(r.outputs[1].byte_offset, 4);
    EXPECT_EQ(static_cast<float*>(r.outputs[1].data)[0], 11);
    EXPECT_EQ(static_cast<TestHost::Object*>(r.outputs[0].object)->references, 2);

    EXPECT_EQ(r.outputs[2].kind, program::Output::Kind::kInput);
    EXPECT_TRUE(r.outputs[2].whole);

    EXPECT_EQ(r.outputs[3].object, nullptr);
    EXPECT_EQ(r.outputs[3].data, x.values.data());
    EXPECT_TRUE(r.outputs[3].whole);

    EXPECT_EQ(r.outputs[4].scalar.i, 8);
    EXPECT_EQ(r.outputs[5].scalar.f, 1.5);
    EXPECT_EQ(r.outputs[5].scalar_kind, ScalarKind::kFloat);
    EXPECT_EQ(r.outputs[6].kind, program::Output::Kind::kNone);

    EXPECT_EQ(r.outputs[7].data, x.values.data() + 1);
    EXPECT_FALSE(r.outputs[7].whole);
  }
  EXPECT_EQ(host.live, 0);
}

// A caller may write to an output, so constants are copied.
TEST(Outputs, ConstantsAreCopied) {
  TestHost host;
  auto program = std::make_shared<program::Program>(program::parse(R"(npugraph.program 4 @constant {
    buffer b0 constant(0) bytes(8)
    constant c0 "two" : f32[2]{1} bytes(8)
    segment 0
    output tensor b0+4 : f32[1]{1}
  })",
                                                                   "test"));
  const auto values = std::make_shared<Floats>(Floats{1, 2});
  program->constants[0].owner = values;
  program->constants[0].data = values->data();
  Executable executable(program, host, host.maker(), {}, "constant");
  const Results first(executable, host, {});
  ASSERT_EQ(first.result.status, RunStatus::kOk) << first.result.error;
  EXPECT_EQ(first.values(0), Floats({2}));
  EXPECT_EQ(Observation(executable).memory().copied_bytes_per_replay, 8);
  *static_cast<float*>(first.outputs[0].data) = 5;
  EXPECT_EQ(Results(executable, host, {}).values(0), Floats({2}));
}

// If a result cannot be allocated, the call fails without a leak, and the next call works.
TEST(Outputs, NothingLeaksWhenAnAllocationFails) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain);
  Argument x({1});
  host.fail_allocations = true;
  {
    const Results r(*executable, host, {x.bound()});
    EXPECT_EQ(r.result.status, RunStatus::kTaskFailed);
    EXPECT_EQ(r.outputs[0].object, nullptr);
  }
  host.fail_allocations = false;
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats({3}));
  EXPECT_EQ(host.live, 0);
}

}  // namespace
}  // namespace npugraph::runtime
