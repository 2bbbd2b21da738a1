// SPDX-License-Identifier: Apache-2.0
// Windows of inputs stay inside the memory of the inputs.
#include <gtest/gtest.h>

#include "runtime/runtime_test_util.h"

namespace npugraph::runtime {
namespace {

// y holds the doubled elements of x and of the two elements before it: x begins at element 2 of its storage.
constexpr const char* kNamesPlaces = R"(npugraph.program 4 @places {
  symbol s0 : int = size(0, 0)
  buffer b0 input(0) live(0, 0)
  buffer b1 output bytes(4*s0 + 8) live(0, 0)
  input 0 "x" b0 : f32[s0]{1} at(2)
  task 0 kernel "double" {
    read b0+-8 : f32[s0 + 2]{1}
    write b1+0 : f32[s0 + 2]{1}
    args(%0)
  }
  segment 1
  output tensor b1+0 : f32[s0 + 2]{1}
})";

TEST(InputMemory, ThatEndsTooEarlyIsRefused) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain);
  Argument x({1, 2});
  BoundInput bound = x.bound();
  bound.capacity = 8;
  EXPECT_EQ(Results(*executable, host, {bound}).values(0), Floats({3, 5}));
  bound.capacity = 4;
  for (int i = 0; i < 2; ++i) {
    const Results r(*executable, host, {bound});
    EXPECT_EQ(r.result.status, RunStatus::kInputRefused);
    EXPECT_EQ(r.result.error, "input 0 (L['x']) needs 8 bytes of memory; its storage has 4");
  }
  bound.capacity = 8;
  EXPECT_EQ(Results(*executable, host, {bound}).values(0), Floats({3, 5}));
}

TEST(InputMemory, WindowsMayBeginBeforeAnInputThatLiesAtItsPlace) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kNamesPlaces);
  Floats memory{1, 2, 3, 4};
  const int64_t size = 2;
  const BoundInput x{.data = &memory[2], .sizes = &size, .storage_offset = 2, .capacity = 8};
  EXPECT_EQ(Results(*executable, host, {x}).values(0), Floats({2, 4, 6, 8}));
  BoundInput shifted = x;
  shifted.storage_offset = 1;
  EXPECT_EQ(Results(*executable, host, {shifted}).result.status, RunStatus::kInputElsewhere);
  EXPECT_EQ(Results(*executable, host, {x}).values(0), Floats({2, 4, 6, 8}));
}

TEST(InputMemory, AWindowBeforeTheStorageIsRefused) {
  TestHost host;
  define_chain(host);
  std::string text = kNamesPlaces;
  text.replace(text.find("at(2)"), 5, "at(1)");
  const auto executable = make(host, text);
  Floats memory{1, 2, 3, 4};
  const int64_t size = 2;
  const Results r(*executable, host, {{.data = &memory[2], .sizes = &size, .storage_offset = 1}});
  EXPECT_EQ(r.result.status, RunStatus::kTaskFailed);
  EXPECT_NE(r.result.error.find("begins before its memory"), std::string::npos) << r.result.error;
}

TEST(InputMemory, APlaceMayBeASymbol) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, R"(npugraph.program 4 @symbol {
    symbol s0 : int = size(0, 0)
    symbol s1 : int = offset(0)
    buffer b0 input(0) live(0, 0)
    buffer b1 output bytes(4*s1) live(0, 0)
    input 0 "x" b0 : f32[s0]{1} at(s1)
    task 0 kernel "double" {
      read b0+-4*s1 : f32[s1]{1}
      write b1+0 : f32[s1]{1}
      args(%0)
    }
    segment 1
    output tensor b1+0 : f32[s1]{1}
  })");
  Floats memory{1, 2, 3, 4};
  const int64_t size = 1;
  for (const int64_t place : {3, 1, 2, 3}) {
    const Results r(*executable, host, {{.data = &memory[place], .sizes = &size, .storage_offset = place}});
    Floats want;
    for (int64_t i = 0; i < place; ++i) want.push_back(2 * memory[i]);
    EXPECT_EQ(r.values(0), want);
  }
}

// Input 0 is read by the first task, 1 by both, 2 is written, 3 is returned, 4 is a parameter.
TEST(InputMemory, TheCallerIsToldWhenAnInputIsDone) {
  TestHost host;
  std::string story;
  host.define("first", [&](ng_call&) { return story += "a ", NG_OK; });
  host.define("second", [&](ng_call&) { return story += "b ", NG_OK; });
  const auto executable = make(host, R"(npugraph.program 4 @done {
    buffer b0 input(0) live(0, 0)
    buffer b1 input(1) live(0, 1)
    buffer b2 input(2) live(0, 0)
    buffer b3 input(3) live(0, 0)
    buffer b4 parameter(4) live(0, 0)
    input 0 "a" b0 : f32[2]{1}
    input 1 "b" b1 : f32[2]{1}
    input 2 "c" b2 : f32[2]{1} mutated
    input 3 "d" b3 : f32[2]{1}
    input 4 "w" b4 : f32[2]{1}
    task 0 kernel "first" {
      read b0+0 : f32[2]{1}
      read b1+0 : f32[2]{1}
      readwrite b2+0 : f32[2]{1}
      read b3+0 : f32[2]{1}
      read b4+0 : f32[2]{1}
      args(%0)
    }
    task 1 kernel "second" {
      read b1+0 : f32[2]{1}
      args(%0)
    }
    segment 2
    output input 3
  })");
  std::vector<Argument> arguments(5, Argument({1, 2}));
  std::vector<BoundInput> inputs;
  for (Argument& argument : arguments) inputs.push_back(argument.bound());
  BoundInputs call{.all = inputs};
  call.caller = &story;
  call.done_with = [](void* caller, size_t input) {
    *static_cast<std::string*>(caller) += std::to_string(input) + " ";
  };
  std::vector<BoundOutput> outputs(1);
  std::vector<int64_t> dims;
  EXPECT_EQ(executable->run(call, outputs, dims).status, RunStatus::kOk);
  EXPECT_EQ(story, "a 0 b 1 ");
}

}  // namespace
}  // namespace npugraph::runtime
