// SPDX-License-Identifier: Apache-2.0
#include "device/capture/task_group.h"

#include "backend/bridge/dispatch.h"
#include "base/env.h"
#include "base/error.h"
#include "device/capture/registry.h"
#include "device/capture/replay.h"
#include "runtime/watch/observer.h"

namespace npugraph::capture {
namespace {

// Observers see the tasks of Programs.
bool is_observed() { return environment().red_zones || runtime::Observer::wanted(); }

}  // namespace

bool is_repeatable(std::span<const c10::IValue> args) {
  bool repeatable = true;
  for (const c10::IValue& value : args)
    for_each_tensor(value, [&](const at::Tensor& tensor) { repeatable &= !tensor.device().is_cpu(); });
  return repeatable;
}

void DirectCalls::run(c10::Stream stream) {
  if (is_observed()) return recorded().run(stream);
  const Inside inside;
  const bridge::BelowAutograd below;
  for (const DirectCall& call : calls_) {
    torch::jit::Stack stack = call.args;
    with_place([&] { call.op.callBoxed(stack); },
               [&] { return cat("in ", call.op.schema().name(), " of an update of a captured graph"); });
  }
}

RecordedProgram& DirectCalls::recorded() {
  const std::lock_guard lock(mutex_);
  if (!recorded_) {
    TouchedMemory memory;
    RecordedStep step;
    for (const DirectCall& call : calls_)
      step.launches.push_back(describe_launch(call.op, call.args, call.results, memory, 0));
    memory.resolve();
    recorded_.emplace("update", std::move(step), memory);
  }
  return *recorded_;
}

}  // namespace npugraph::capture
