// SPDX-License-Identifier: Apache-2.0
#include "plan/steps.h"

namespace npugraph::plan {
namespace {

using program::Access;
using program::Buffer;
using program::BufferClass;
using program::kNone;
using program::Program;

// Per buffer: whether the Program returns a window into it. Such a buffer lives until the Program ends if any
// task touches it.
std::vector<bool> find_returned(const Program& program) {
  std::vector<bool> returned(program.buffers.size(), false);
  for (const program::Output& output : program.outputs) {
    if (output.kind == program::Output::Kind::kTensor) returned[output.tensor.buffer] = true;
  }
  return returned;
}

}  // namespace

void find_lives(Program& program) {
  for (Buffer& buffer : program.buffers) buffer.first_task = buffer.last_task = kNone;
  for (program::Input& input : program.inputs) input.mutated = false;

  const auto num_tasks = static_cast<int32_t>(program.tasks.size());
  for (int32_t task = 0; task < num_tasks; ++task) {
    for (const program::Operand& operand : program.tasks[task].operands) {
      Buffer& buffer = program.buffers[operand.buffer];
      if (buffer.first_task == kNone) buffer.first_task = task;
      buffer.last_task = task;
      const bool of_input = buffer.cls == BufferClass::kInput || buffer.cls == BufferClass::kParameter;
      if (of_input && operand.access != Access::kRead) program.inputs[buffer.source].mutated = true;
    }
  }

  const std::vector<bool> returned = find_returned(program);
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    Buffer& buffer = program.buffers[i];
    if (returned[i] && buffer.first_task != kNone) buffer.last_task = num_tasks - 1;
  }
}

void release_heap(Program& program) {
  for (program::Task& task : program.tasks) task.releases.clear();
  const std::vector<bool> returned = find_returned(program);
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    if (buffer.cls != BufferClass::kHeap || returned[i] || buffer.last_task == kNone) continue;
    program.tasks[buffer.last_task].releases.push_back(static_cast<int32_t>(i));
  }
}

}  // namespace npugraph::plan
