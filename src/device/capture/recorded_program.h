// SPDX-License-Identifier: Apache-2.0
// Launches without an interruption, as a Program over the memory that they were captured with, ready to run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/capture/recording.h"
#include "device/capture/replay.h"
#include "runtime/executable.h"
#include "runtime/observation.h"

namespace npugraph::capture {

// Memory of an input of a Program: one storage, or several that overlap, from the first byte of the first one on.
struct ExternalMemory {
  std::vector<c10::Storage> storages;
};

class RecordedProgram : public Segment {
 public:
  RecordedProgram(std::string name, RecordedStep step, const TouchedMemory& memory);

  void run(c10::Stream stream) override;
  const program::Program& program() override { return *program_; }
  runtime::MemoryInfo memory() override { return runtime::Observation(*executable_).memory(); }

 private:
  void bind();

  std::vector<ExternalMemory> external_;
  std::shared_ptr<const program::Program> program_;
  std::unique_ptr<runtime::Executable> executable_;
  std::vector<runtime::BoundInput> bound_;
  std::vector<int64_t> dims_;
  uint64_t version_ = 0;  // of bound_
};

}  // namespace npugraph::capture
