// SPDX-License-Identifier: Apache-2.0
// The recording of a capture, in the order in which each replay runs it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <c10/core/Stream.h>

#include "device/capture/describe_launch.h"
#include "device/capture/generator_states.h"
#include "device/capture/touched_memory.h"

namespace npugraph::capture {

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

// A call that replays repeat (direct_calls.h).
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
