// SPDX-License-Identifier: Apache-2.0
// What an update of a task group launches: calls of operators, which replays repeat without a Program. Each update of
// each group lives for one replay as a rule, so a Program costs more than it saves. It is made when somebody looks.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "device/capture/recorded_program.h"
#include "device/capture/segment.h"

namespace npugraph::capture {

// Whether a replay can repeat a call with `args`: tensors of the host have their values of the launch, and may change.
bool is_repeatable(std::span<const c10::IValue> args);

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

}  // namespace npugraph::capture
