// SPDX-License-Identifier: Apache-2.0
// Programs in memory of whoever runs them.
#include <array>
#include <cstring>

#include <gtest/gtest.h>

#include "runtime/runtime_test_util.h"
#include "runtime/watch/ledger.h"

namespace npugraph::runtime {
namespace {

// One block at a time, at a place that the test chooses.
class OneBlock : public BlockSource {
 public:
  std::span<std::byte> take(int64_t least, int64_t) override {
    EXPECT_FALSE(taken);
    taken = true;
    return std::span(place).first(static_cast<size_t>(least));
  }
  void give_back(std::span<std::byte> block) override {
    EXPECT_EQ(block.data(), place.data());
    taken = false;
  }
  bool is_counted() const override { return false; }

  std::span<std::byte> place;
  bool taken = false;
};

struct alignas(64) Memory {
  std::array<std::byte, 256> bytes{};
};

int64_t live_bytes() {
  int64_t bytes = 0;
  for (const PoolInfo& pool : pools()) bytes += pool.live_bytes;
  return bytes;
}

TEST(UserMemory, HoldsTheArena) {
  TestHost host;
  define_chain(host);
  OneBlock source;
  const auto executable = make(host, kChain, {.memory = &source});
  Argument x({1, 2, 3});
  const std::vector<BoundInput> inputs = {x.bound()};
  EXPECT_EQ(executable->prepare({.all = inputs}), 64);
  EXPECT_FALSE(source.taken);
  Memory first;
  Memory second;
  for (Memory* memory : {&first, &second}) {
    source.place = memory->bytes;
    EXPECT_EQ(Results(*executable, host, inputs).values(0), Floats({3, 5, 7}));
    const Floats doubled = {2, 4, 6};
    EXPECT_EQ(std::memcmp(memory->bytes.data(), doubled.data(), 12), 0);
    HeldMemory(*executable).release();
  }
  EXPECT_FALSE(source.taken);
  EXPECT_EQ(live_bytes(), 0);
  EXPECT_EQ(Observation(*executable).counters().captures, 1);
}

TEST(UserMemory, HoldsResults) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain);
  Argument x({1, 2, 3});
  const std::vector<BoundInput> inputs = {x.bound()};
  std::vector<BoundOutput> outputs(1);
  std::vector<int64_t> dims;
  void* data = nullptr;
  void* object = host.allocate(12, &data);
  for (const int64_t bytes : {12, 11}) {  // in the second run it is too small
    const std::vector<ResultMemory> results = {{object, data, bytes}};
    ASSERT_EQ(executable->run({.all = inputs, .results = results}, outputs, dims).status, RunStatus::kOk);
    EXPECT_EQ(outputs[0].object == object, bytes == 12);
    EXPECT_EQ(static_cast<float*>(outputs[0].data)[2], 7);
    host.release(outputs[0].object);
  }
  host.release(object);
  EXPECT_EQ(host.live, 0);
}

// y = x + c
constexpr const char* kAddConstant = R"(npugraph.program 4 @add {
  buffer b0 input(0) live(0, 0)
  buffer b1 constant(0) bytes(8) live(0, 0)
  buffer b2 output bytes(8) live(0, 0)
  constant c0 "c" : f32[2]{1} bytes(8)
  input 0 "L['x']" b0 : f32[2]{1}
  task 0 kernel "add" {
    read b0+0 : f32[2]{1}
    read b1+0 : f32[2]{1}
    write b2+0 : f32[2]{1}
    args(%0, %1)
  }
  segment 1
  output tensor b2+0 : f32[2]{1}
})";

TEST(UserMemory, HoldsConstants) {
  TestHost host;
  host.define("add", [](ng_call& call) {
    for (int i = 0; i < 2; ++i) floats(call.buffers[2])[i] = floats(call.buffers[0])[i] + floats(call.buffers[1])[i];
    return NG_OK;
  });
  auto program = std::make_shared<program::Program>(program::parse(kAddConstant, "test"));
  const auto constant = std::make_shared<Floats>(Floats{10, 20});
  program->constants[0].owner = constant;
  program->constants[0].data = constant->data();
  Executable executable(program, host, host.maker(), {}, "add");
  Argument x({1, 2});
  EXPECT_EQ(Results(executable, host, {x.bound()}).values(0), Floats({11, 22}));
  ASSERT_EQ(HeldMemory(executable).constant_bytes(), 64);
  Memory memory;
  HeldMemory(executable).move_constants(memory.bytes.data());
  EXPECT_EQ(Results(executable, host, {x.bound()}).values(0), Floats({11, 22}));
  const Floats others = {100, 200};
  std::memcpy(memory.bytes.data(), others.data(), 8);
  EXPECT_EQ(Results(executable, host, {x.bound()}).values(0), Floats({101, 202}));
  HeldMemory(executable).move_constants(nullptr);
  EXPECT_EQ(Results(executable, host, {x.bound()}).values(0), Floats({11, 22}));
  EXPECT_EQ(Observation(executable).counters().captures, 1);
}

}  // namespace
}  // namespace npugraph::runtime
