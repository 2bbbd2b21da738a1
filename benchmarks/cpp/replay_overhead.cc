// SPDX-License-Identifier: Apache-2.0
// What the runtime itself costs: replays of Programs whose tasks do next to nothing, against a loop that calls the same
// functions with the same arguments. Prints one line of JSON:
//   replay_us        a replay of one task, with 8 inputs and one output
//   ns_per_task      what each of 1,000 tasks adds to a replay, beyond the call of its function
//   loop_us          the loop over 1,000 functions
//   user_kernel_ns   what each of 1,000 tasks costs more if its function is a kernel as users write them
//   inputs_us        what 400 inputs that stand still, 90 of them written, add to a replay
//   moving_inputs_us the same when 4 of them move at each call
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "abi/kernel.h"
#include "base/trace.h"
#include "program/definition.h"
#include "runtime/executable.h"

namespace npugraph::runtime {
namespace {

using program::Access;
using program::BufferClass;

ng_status trivial(void*, void*, ng_call* call) {
  *static_cast<float*>(call->buffers[1].data) = *static_cast<const float*>(call->buffers[0].data);
  return NG_OK;
}

ng_task make_trivial(const program::Program&, const program::Task&) {
  return {
      .context = nullptr, .run = trivial, .bind = nullptr, .unbind = nullptr, .workspace = nullptr, .destroy = nullptr};
}

// The same as users write it.
void trivial_kernel(kernel::Input x, kernel::Output y) { *y.data<float>() = *x.data<float>(); }
NPUGRAPH_KERNEL("benchmark::trivial(Tensor x) -> Tensor", trivial_kernel)

ng_task make_user_kernel(const program::Program&, const program::Task& task) {
  return program::make_task(npugraph_library()->kernels->make, task);
}

// Objects that cost nothing, so that the allocator of a host is not measured.
class BenchmarkHost : public Host {
 public:
  void* allocate(int64_t, void** data) override { return *data = memory_; }
  void retain(void*) override {}
  void release(void*) override {}
  void* constant_object(const program::Constant&) override { return nullptr; }

 private:
  alignas(64) std::byte memory_[64];
};

program::Operand operand(int32_t buffer, Access access) {
  return {
      .buffer = buffer, .access = access, .dtype = DType::kF32, .byte_offset = {}, .sizes = {{1}}, .strides = {{1}}};
}

// `written` of the inputs are written, by a task each; then `tasks` tasks write two arena buffers by turns. No task
// waits for another one, so that the cost of the runtime cannot hide behind the latency of the tasks.
std::shared_ptr<program::Program> make_program(int32_t inputs, int32_t written, int32_t tasks) {
  auto program = std::make_shared<program::Program>();
  const auto add_task = [&](int32_t from, int32_t to) {
    program::Task task{.kind = program::TaskKind::kKernel, .name = "trivial", .args = {TensorRef{0}}};
    task.operands = {operand(from, Access::kRead), operand(to, Access::kWrite)};
    for (const auto& o : task.operands) {
      program::Buffer& buffer = program->buffers[o.buffer];
      if (buffer.first_task == program::kNone) buffer.first_task = static_cast<int32_t>(program->tasks.size());
      buffer.last_task = static_cast<int32_t>(program->tasks.size());
    }
    program->tasks.push_back(std::move(task));
  };
  for (int32_t i = 0; i < inputs; ++i) {
    program->buffers.push_back({.cls = BufferClass::kInput, .source = i});
    program->inputs.push_back({.source = "x", .buffer = i, .sizes = {{1}}, .strides = {{1}}, .mutated = i < written});
  }
  const int32_t arena = inputs;
  program->buffers.push_back({.cls = BufferClass::kArena, .bytes = {4}});
  program->buffers.push_back({.cls = BufferClass::kArena, .bytes = {4}});
  program->buffers.push_back({.cls = BufferClass::kOutput, .bytes = {4}});
  const int32_t still = inputs - 1;  // read by every task, and never moves
  for (int32_t i = 0; i < written; ++i) add_task(still, i);
  for (int32_t t = 0; t < tasks; ++t) add_task(still, arena + t % 2);
  add_task(still, arena + 2);
  program->segments = {static_cast<int32_t>(program->tasks.size())};
  program->outputs.push_back({.kind = program::Output::Kind::kTensor, .tensor = operand(arena + 2, Access::kRead)});
  return program;
}

// The median over rounds, in ns per call. Rounds are short against a time slice, so that other processes disturb few of
// them.
template <typename Call>
double time_ns(Call call) {
  constexpr int kRounds = 301;
  constexpr int64_t kRoundNs = 100'000;
  int calls = 0;
  const int64_t warm_up = now_ns();
  while (now_ns() - warm_up < kRoundNs) call(calls++);
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t start = now_ns();
    for (int i = 0; i < calls; ++i) call(i);
    rounds.push_back(static_cast<double>(now_ns() - start) / calls);
  }
  std::ranges::nth_element(rounds, rounds.begin() + kRounds / 2);
  return rounds[kRounds / 2];
}

double replay_ns(int32_t inputs, int32_t written, int32_t tasks, int32_t moving = 0,
                 const MakeTask& make = make_trivial) {
  BenchmarkHost host;
  Executable executable(make_program(inputs, written, tasks), host, make, {}, "benchmark");
  std::vector<float> memory(2 * inputs);
  std::vector<BoundInput> bound(inputs);
  for (int32_t i = 0; i < inputs; ++i) {
    bound[i].data = &memory[2 * i];
    bound[i].capacity = sizeof(float);
  }
  std::vector<BoundOutput> outputs(1);
  std::vector<int64_t> dims;
  return time_ns([&](int call) {
    for (int32_t i = inputs - 1 - moving; i < inputs - 1; ++i) bound[i].data = &memory[2 * i + call % 2];
    if (executable.run({.all = bound}, outputs, dims).status != RunStatus::kOk) std::abort();
  });
}

double loop_ns(int32_t tasks) {
  std::vector<float> memory(3);
  std::vector<ng_buffer> buffers;
  for (int32_t t = 0; t < tasks; ++t) {
    buffers.push_back({&memory[2], nullptr, nullptr, nullptr, 1, NG_F32});
    buffers.push_back({&memory[t % 2], nullptr, nullptr, nullptr, 1, NG_F32});
  }
  std::vector<ng_call> calls(tasks);
  struct Entry {
    ng_status (*run)(void*, void*, ng_call*);
    ng_call* call;
  };
  std::vector<Entry> entries(tasks);
  for (int32_t t = 0; t < tasks; ++t) {
    calls[t].buffers = &buffers[2 * t];
    entries[t] = {trivial, &calls[t]};
  }
  return time_ns([&](int) {
    for (const Entry& entry : entries) {
      if (entry.run(nullptr, nullptr, entry.call) != NG_OK) std::abort();
    }
  });
}

}  // namespace
}  // namespace npugraph::runtime

int main() {
  using namespace npugraph::runtime;
  constexpr int32_t kTasks = 1000;
  constexpr int32_t kInputs = 400;
  constexpr int32_t kWritten = 90;
  const double empty = replay_ns(8, 0, 0);
  const double loop = loop_ns(kTasks);
  const double full = replay_ns(8, 0, kTasks);
  const double users = replay_ns(8, 0, kTasks, 0, make_user_kernel);
  const double others = empty + (full - empty) * kWritten / kTasks;
  const double still = replay_ns(kInputs, kWritten, 0) - others;
  const double moving = replay_ns(kInputs, kWritten, 0, 4) - others;
  std::printf(
      "{\"replay_us\": %.3f, \"ns_per_task\": %.2f, \"loop_us\": %.3f, \"user_kernel_ns\": %.2f, "
      "\"inputs_us\": %.3f, \"moving_inputs_us\": %.3f}\n",
      empty / 1e3, (full - loop - empty) / kTasks, loop / 1e3, (users - full) / kTasks, still / 1e3, moving / 1e3);
}
