// SPDX-License-Identifier: Apache-2.0
// A captured graph: torch.npu.NPUGraph and torch.accelerator.Graph. Thread-safe; replays of one graph follow each other.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include "torch/capture/capture.h"
#include "torch/capture/compiled_call.h"
#include "torch/capture/external_event.h"
#include "torch/capture/segment.h"
#include "torch/capture/task_group.h"

namespace npugraph::capture {

// A pool that no graph has. Graphs that share one may use the same memory for what dies inside of a replay.
c10::MempoolId_t new_pool();

class CapturedGraph : public std::enable_shared_from_this<CapturedGraph> {
 public:
  ~CapturedGraph();

  // Records what is launched in `stream`, and in streams that wait for it, until end(). c10::Error for the default stream.
  void begin(c10::Stream stream, std::optional<c10::MempoolId_t> pool, ErrorMode mode);
  // `stream` is the current one, and that of begin(). c10::Error when what was recorded is no graph; it is forgotten.
  void end(c10::Stream stream);
  // Ends a capture that an error has left, without a graph.
  void abandon();
  // Runs what was captured, on the memory that the capture saw. What an operator throws. Where an ExternalEvent has not been
  // recorded it returns, and the rest runs when that is.
  void replay(c10::Stream stream);
  // Gives its memory back; can be captured anew.
  void reset();
  c10::MempoolId_t pool() const;
  // The Programs, and what happens between them.
  std::string text() const;
  // Of all Programs together: their arenas, and what the last replay copied.
  runtime::MemoryInfo memory() const;
  // What was launched, in order. Updates of task groups do not change it.
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
  // Runs the steps from `step` on. Leaves no collective under way when it throws.
  void go_on(size_t step, c10::Stream stream);
  void run_steps(size_t step, c10::Stream stream);

  mutable std::mutex mutex_;  // guards what follows
  std::shared_ptr<Capture> capture_;
  c10::MempoolId_t pool_{0, 0};
  bool is_captured_ = false;
  bool waits_ = false;  // a replay has stopped at an ExternalEvent
  std::vector<Step> steps_;
  std::vector<Launch> launched_;
  std::vector<std::shared_ptr<CollectiveCall>> collectives_;
  std::vector<StartState> starts_;
};

// Between them, launches in `stream` are recorded in place of those of `group`.
void begin_update(c10::Stream stream, std::shared_ptr<TaskGroup> group);
void end_update(c10::Stream stream);
// Ends an update that an error has left; the group stays as it was.
void abandon_update(c10::Stream stream);

// The graph that `stream` is captured for; c10::Error, in the name of `what`, when it is not.
std::shared_ptr<Capture> graph_capture_of(const char* what, c10::Stream stream);

}  // namespace npugraph::capture
