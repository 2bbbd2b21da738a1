// SPDX-License-Identifier: Apache-2.0
// Updates of captured graphs: what they replace, and what they put there. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "device/capture/recorded_program.h"
#include "device/capture/replay.h"

namespace npugraph::capture {

// Whether a replay can repeat a call with `args`: tensors of the host have their values of the launch, and may change.
bool is_repeatable(std::span<const c10::IValue> args);

// What an update of a task group launches: calls of operators, which replays repeat without a Program. Each update of
// each group lives for one replay as a rule, so a Program costs more than it saves. It is made when somebody looks.
class DirectCalls : public Segment {
 public:
  explicit DirectCalls(std::vector<DirectCall> calls) : calls_(std::move(calls)) {}

  void run(c10::Stream stream) override;
  const program::Program& program() override { return recorded().program(); }
  runtime::MemoryInfo memory() override { return recorded().memory(); }

 private:
  RecordedProgram& recorded();

  const std::vector<DirectCall> calls_;
  std::mutex mutex_;  // guards what follows
  std::optional<RecordedProgram> recorded_;
};

// A part of a captured graph that can be replaced.
class TaskGroup {
 public:
  // Sets what replays run from now on; null for nothing.
  void replace(std::shared_ptr<Segment> segment) {
    const std::lock_guard lock(mutex_);
    is_captured_ = true;
    segment_ = std::move(segment);
  }
  // Called when the graph is destroyed or reset.
  void drop() {
    const std::lock_guard lock(mutex_);
    is_captured_ = false;
    segment_ = nullptr;
  }
  bool is_captured() const {
    const std::lock_guard lock(mutex_);
    return is_captured_;
  }
  std::shared_ptr<Segment> segment() const {
    const std::lock_guard lock(mutex_);
    return segment_;
  }

 private:
  mutable std::mutex mutex_;
  bool is_captured_ = false;  // the capture has ended
  std::shared_ptr<Segment> segment_;
};

}  // namespace npugraph::capture
