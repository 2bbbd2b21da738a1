// SPDX-License-Identifier: Apache-2.0
// A captured graph: torch.npu.NPUGraph and torch.accelerator.Graph. Thread-safe; replays of one graph follow each
// other.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include "device/capture/capture.h"
#include "device/capture/compiled_call.h"
#include "device/capture/external_event.h"
#include "device/capture/replay.h"
#include "device/capture/task_group.h"

namespace npugraph::capture {

// The id of a new pool. Graphs that share a pool may use the same memory for intermediates of a replay.
c10::MempoolId_t new_pool();

class CapturedGraph : public std::enable_shared_from_this<CapturedGraph> {
 public:
  ~CapturedGraph();

  // Records what is launched in `stream`, and in streams that wait for it, until end(). c10::Error for the default
  // stream.
  void begin(c10::Stream stream, std::optional<c10::MempoolId_t> pool, ErrorMode mode);
  // `stream` must be the current one, and that of begin(). c10::Error if
  // the recording is no valid graph; it is dropped.
  void end(c10::Stream stream);
  // Ends a capture after an error, without a graph.
  void abandon();
  // Runs the captured work on the memory that the capture saw. Throws what an operator throws. Returns early at an
  // ExternalEvent that has not been recorded; the rest runs when it is recorded.
  void replay(c10::Stream stream);
  // Frees the memory of the graph, which can then be captured anew.
  void reset();
  c10::MempoolId_t pool() const;
  // A text of the Programs and of the steps between them.
  std::string text() const;
  // Sums over all Programs: bytes of their arenas, and bytes that the last replay copied.
  runtime::MemoryInfo memory() const;
  // All launches, in order. Updates of task groups do not change them.
  std::vector<Launch> launched() const;

 private:
  struct Step {
    RecordedStep::Kind kind = RecordedStep::Kind::kLaunches;
    std::shared_ptr<Segment> segment;
    std::shared_ptr<TaskGroup> group;
    std::shared_ptr<CompiledCall> call;
    std::shared_ptr<ExternalEvent> event;
  };
  std::shared_ptr<Capture> take_capture();
  // Runs the steps from `step` on. No collective is pending after an exception.
  void go_on(size_t step, c10::Stream stream);
  void run_steps(size_t step, c10::Stream stream);
  // Whether the event of the step `wait` has not been recorded; the replay goes on at the step `next` when it is.
  bool stops_at(size_t wait, size_t next, c10::Stream stream);
  // Stops the replay before `step`, as long as steps behind it wait for events, and returns true. Nobody sees the
  // difference: work that would see a part of the replay must come after an event that the replay records. So all steps
  // run in one session of the pool, after the last update of a task group.
  bool stops_early(size_t step, c10::Stream stream);

  mutable std::mutex mutex_;  // guards what follows
  std::shared_ptr<Capture> capture_;
  c10::MempoolId_t pool_{0, 0};
  bool is_captured_ = false;
  bool waits_ = false;          // a replay has stopped at an ExternalEvent
  bool in_pool_alone_ = false;  // see runs_in_pool_alone()
  std::vector<Step> steps_;
  std::vector<bool> has_happened_;  // by step, the events that the replay has seen recorded: they may be reset since
  std::vector<Launch> launched_;
  std::vector<std::shared_ptr<CollectiveCall>> collectives_;
  std::vector<StartState> starts_;
};

// Between the two calls, launches in `stream` are recorded in place of those of `group`.
void begin_update(c10::Stream stream, std::shared_ptr<TaskGroup> group);
void end_update(c10::Stream stream);
// Ends an update after an error; the group stays as it was.
void abandon_update(c10::Stream stream);

// The capture of a graph that `stream` belongs to; if there is none, c10::Error in the name of `what`.
std::shared_ptr<Capture> graph_capture_of(const char* what, c10::Stream stream);

}  // namespace npugraph::capture
