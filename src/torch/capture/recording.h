// SPDX-License-Identifier: Apache-2.0
// What a capture saw, in the order in which it is to happen at each replay.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "torch/capture/describe_launch.h"
#include "torch/capture/touched_memory.h"

namespace npugraph::capture {

class CompiledCall;
class ExternalEvent;
class TaskGroup;

struct RecordedStep {
  enum class Kind : uint8_t { kLaunches, kCall, kWait, kReset, kRecord };
  Kind kind = Kind::kLaunches;
  std::vector<RecordedTask> launches;
  std::shared_ptr<TaskGroup> group;      // kLaunches: that these launches are
  std::shared_ptr<CompiledCall> call;    // kCall
  std::shared_ptr<ExternalEvent> event;  // of the other kinds
};

struct Recording {
  std::vector<RecordedStep> steps;
  std::vector<std::shared_ptr<CollectiveCall>> collectives;
  TouchedMemory memory;  // resolved
};

}  // namespace npugraph::capture
