// SPDX-License-Identifier: Apache-2.0
// The recording of a capture, in the order in which each replay runs it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Stream.h>

#include "backend/bridge/task_makers.h"
#include "device/capture/collective_call.h"
#include "device/capture/generator_states.h"
#include "device/capture/touched_memory.h"
#include "program/program.h"

namespace npugraph::capture {

// One call of an operator, or of a collective, as a task of a Program: its tensors are windows into numbered memory
// (touched_memory.h).
struct RecordedTask {
  program::Task task;  // Operand::buffer is a number of the TouchedMemory
  std::vector<bridge::FixedArgument> fixed;
  std::shared_ptr<CollectiveCall> collective;  // the one that it begins or waits for, or null
};

// `args` are the arguments after the call, so resized tensors have their new sizes. c10::NotImplementedError if a
// tensor has no form in a Program.
RecordedTask describe_launch(const c10::OperatorHandle& op, std::span<const c10::IValue> args,
                             std::span<const c10::IValue> results, TouchedMemory& memory, int32_t step);

// The task `name` of a collective: the one that begins it, or program::kWaitTask.
RecordedTask describe_collective(const std::string& name, const BegunCollective& begun, TouchedMemory& memory,
                                 int32_t step);

// Calls `fn(tensor)` for every defined tensor in `value`.
template <typename F>
void for_each_tensor(const c10::IValue& value, const F& fn) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) fn(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector())
      if (tensor.defined()) fn(tensor);
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef())
      if (element.isTensor()) for_each_tensor(element, fn);
  }
}

// Whether the operator writes its argument `position`, also where its schema does not say so.
bool is_written(const c10::FunctionSchema& schema, size_t position);

class CompiledCall;
class ExternalEvent;
class TaskGroup;

struct RecordedStep {
  enum class Kind : uint8_t { kLaunches, kCall, kWait, kReset, kRecord };
  Kind kind = Kind::kLaunches;
  std::vector<RecordedTask> launches;
  std::shared_ptr<TaskGroup> group;      // kLaunches: the group of these launches, or null
  std::shared_ptr<CompiledCall> call;    // kCall
  std::shared_ptr<ExternalEvent> event;  // for the other kinds
};

// A call that replays repeat (DirectCalls).
struct DirectCall {
  c10::OperatorHandle op;
  std::vector<c10::IValue> args;
  std::vector<c10::IValue> results;  // arguments that it writes
};

// One launch and its stream, for inspection of the graph.
struct Launch {
  std::string name;
  c10::Stream stream;
  // Indices of launches of other streams that the stream has waited for since its last launch.
  std::vector<int64_t> waits;
};

struct Recording {
  std::vector<Launch> launched;  // in order
  std::vector<RecordedStep> steps;
  std::vector<DirectCall> direct;  // all launches of an update, in place of steps, if replays can repeat them
  std::vector<std::shared_ptr<CollectiveCall>> collectives;
  TouchedMemory memory;            // resolved
  std::vector<StartState> starts;  // read first by each replay
};

}  // namespace npugraph::capture
