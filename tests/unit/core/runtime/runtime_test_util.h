// SPDX-License-Identifier: Apache-2.0
// A host whose tasks are lambdas and whose objects are counted, and classes for the inputs and outputs of calls.
#pragma once

#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "program/text.h"
#include "runtime/executable.h"
#include "runtime/held_memory.h"
#include "runtime/host.h"
#include "runtime/observation.h"

namespace npugraph::runtime {

using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

class TestHost : public Host {
 public:
  using Body = std::function<ng_status(ng_call&)>;

  struct Object {
    std::atomic<int> references{1};
    std::vector<float> memory;
  };

  // Tasks of this name run `body`, and call `bind` when they are bound.
  void define(const std::string& name, Body body) { functions_[name].body = std::move(body); }
  void on_bind(const std::string& name, Body bind) { functions_[name].bind = std::move(bind); }
  void workspace(const std::string& name, int64_t bytes) { functions_[name].workspace = bytes; }
  int binds(const std::string& name) { return functions_[name].binds; }

  MakeTask maker() {
    return [this](const program::Program&, const program::Task& task) { return make_task(task); };
  }
  ng_task make_task(const program::Task& task) {
    ++builds;
    const auto found = functions_.find(task.name);
    if (found == functions_.end()) throw UserError("no task " + task.name);
    return {.context = &found->second,
            .run = run,
            .bind = bind,
            .unbind = unbind,
            .workspace = workspace_of,
            .destroy = nullptr};
  }

  void* allocate(int64_t bytes, void** data) override {
    if (fail_allocations) throw std::bad_alloc();
    ++allocations;
    ++live;
    auto* object = new Object;
    object->memory.resize((bytes + 3) / 4 + 1);
    *data = object->memory.data();
    return object;
  }
  void retain(void* object) override { ++static_cast<Object*>(object)->references; }
  void release(void* object) override {
    if (--static_cast<Object*>(object)->references > 0) return;
    delete static_cast<Object*>(object);
    --live;
  }
  std::span<std::byte> memory_of(void* object) override {
    return std::as_writable_bytes(std::span(static_cast<Object*>(object)->memory));
  }
  void* constant_object(const program::Constant& constant) override { return constant.owner.get(); }

  std::atomic<int> builds{0};  // tasks that were made
  std::atomic<int> live{0};    // objects that somebody holds
  std::atomic<int> allocations{0};
  std::atomic<int> states{0};  // bound states
  std::atomic<bool> fail_allocations{false};

 private:
  struct Function {
    Body body;
    Body bind;
    int64_t workspace = 0;
    std::atomic<int> binds{0};
    TestHost* host = nullptr;
  };
  static ng_status run(void* context, void*, ng_call* call) { return static_cast<Function*>(context)->body(*call); }
  static ng_status bind(void* context, const ng_call* call, void** state) {
    auto* function = static_cast<Function*>(context);
    ++function->binds;
    if (*state == nullptr) *state = new int(0);
    ng_call copy = *call;
    return function->bind ? function->bind(copy) : NG_OK;
  }
  static void unbind(void*, void* state) { delete static_cast<int*>(state); }
  static int64_t workspace_of(void* context, const ng_call*) { return static_cast<Function*>(context)->workspace; }

  std::map<std::string, Function> functions_;
};

inline float* floats(const ng_buffer& buffer) { return static_cast<float*>(buffer.data); }
inline int64_t elements(const ng_buffer& buffer) {
  int64_t n = 1;
  for (int32_t d = 0; d < buffer.rank; ++d) n *= buffer.sizes[d];
  return n;
}

// y[i] = f(x[i]) over dense buffers 0 and 1.
inline TestHost::Body elementwise(std::function<float(float)> f) {
  return [f = std::move(f)](ng_call& call) {
    for (int64_t i = 0; i < elements(call.buffers[1]); ++i) floats(call.buffers[1])[i] = f(floats(call.buffers[0])[i]);
    return NG_OK;
  };
}

inline std::unique_ptr<Executable> make(TestHost& host, const std::string& text, Options options = {},
                                        Hooks hooks = {}) {
  auto program = std::make_shared<program::Program>(program::parse(text, "test"));
  return std::make_unique<Executable>(program, host, host.maker(), std::move(options), program->name, std::move(hooks));
}

// One tensor argument.
struct Argument {
  std::vector<float> values;
  std::vector<int64_t> sizes;
  Argument(std::vector<float> v) : values(std::move(v)), sizes{static_cast<int64_t>(values.size())} {}  // NOLINT
  BoundInput bound() { return {.data = values.data(), .object = this, .sizes = sizes.data()}; }
};

// Calls the executable and holds the outputs; the destructor releases them.
class Results {
 public:
  Results(Executable& executable, TestHost& host, std::vector<BoundInput> inputs, CallingStream stream = {})
      : outputs(Observation(executable).program().outputs.size()), host_(host) {
    result = executable.run({.all = inputs, .stream = stream}, outputs, dims_);
    for (const BoundOutput& output : outputs) {
      sizes.emplace_back(output.sizes.begin(), output.sizes.end());
    }
  }
  ~Results() {
    for (const BoundOutput& output : outputs) {
      if (output.object != nullptr) host_.release(output.object);
    }
  }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  std::vector<float> values(size_t i) const {
    int64_t n = 1;
    for (const int64_t size : sizes[i]) n *= size;
    const auto* data = static_cast<const float*>(outputs[i].data);
    return {data, data + n};
  }

  RunResult result;
  std::vector<BoundOutput> outputs;
  std::vector<std::vector<int64_t>> sizes;

 private:
  std::vector<int64_t> dims_;
  TestHost& host_;
};

// y = f(g(x)) with an intermediate in the arena, over f32[s0].
inline constexpr const char* kChain = R"(npugraph.program 4 @chain {
  symbol s0 : int = size(0, 0)
  buffer b0 input(0) live(0, 0)
  buffer b1 arena bytes(4*s0) live(0, 1)
  buffer b2 output bytes(4*s0) live(1, 1)
  input 0 "L['x']" b0 : f32[s0]{1}
  task 0 kernel "double" {
    read b0+0 : f32[s0]{1}
    write b1+0 : f32[s0]{1}
    args(%0)
  }
  task 1 kernel "increment" {
    read b1+0 : f32[s0]{1}
    write b2+0 : f32[s0]{1}
    args(%0)
  }
  segment 2
  output tensor b2+0 : f32[s0]{1}
})";

inline void define_chain(TestHost& host) {
  host.define("double", elementwise([](float x) { return 2 * x; }));
  host.define("increment", elementwise([](float x) { return x + 1; }));
}

}  // namespace npugraph::runtime
