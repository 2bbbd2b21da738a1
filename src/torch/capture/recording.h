// SPDX-License-Identifier: Apache-2.0
// What a capture saw, in the order in which it is to happen at each replay.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <c10/core/Stream.h>

#include "torch/capture/describe_launch.h"
#include "torch/capture/generator_states.h"
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

// What was launched where, for whoever looks at the graph.
struct Launch {
  std::string name;
  c10::Stream stream;
  std::vector<int64_t>
      waits;  // launches of other streams, by their numbers from 0, that the stream has waited for since its last one
};

struct Recording {
  std::vector<Launch> launched;  // in order
  std::vector<RecordedStep> steps;
  std::vector<std::shared_ptr<CollectiveCall>> collectives;
  TouchedMemory memory;            // resolved
  std::vector<StartState> starts;  // that a replay reads first
};

}  // namespace npugraph::capture
