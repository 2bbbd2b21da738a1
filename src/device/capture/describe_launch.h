// SPDX-License-Identifier: Apache-2.0
// One call of an operator, or of a collective, as a task of a Program: its tensors are windows into numbered memory
// (touched_memory.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

#include "backend/bridge/aten_task.h"
#include "device/capture/collective_call.h"
#include "device/capture/touched_memory.h"
#include "program/program.h"

namespace npugraph::capture {

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

}  // namespace npugraph::capture
