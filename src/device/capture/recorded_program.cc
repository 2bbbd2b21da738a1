// SPDX-License-Identifier: Apache-2.0
#include "device/capture/recorded_program.h"

#include <utility>

#include "backend/bridge/aten_task.h"
#include "backend/bridge/task_makers.h"
#include "backend/bridge/torch_host.h"
#include "device/capture/build_program.h"
#include "device/capture/registry.h"
#include "device/capture/replay_errors.h"

namespace npugraph::capture {

namespace {

// Makes the tasks of launches, which may have arguments that a Program cannot hold.
runtime::MakeTask maker_of(const std::vector<RecordedTask>& launches) {
  return [&](const program::Program& program, const program::Task& task) {
    const RecordedTask& launch = launches[&task - program.tasks.data()];
    if (launch.collective) return launch.collective->build(launch.collective, program, task);
    return launch.fixed.empty() ? bridge::make_task(program, task)
                                : bridge::build_aten_task(program, task, launch.fixed);
  };
}

}  // namespace

RecordedProgram::RecordedProgram(std::string name, RecordedStep step, const TouchedMemory& memory) {
  auto [program, external] = build_program(name, step.launches, memory);
  external_ = std::move(external);
  program_ = std::move(program);
  executable_ = std::make_unique<runtime::Executable>(program_, bridge::TorchHost::instance(), maker_of(step.launches),
                                                      runtime::Options{}, std::move(name));
  bound_.resize(external_.size());
}

void RecordedProgram::bind() {
  bool moved = version_ == 0;
  for (size_t i = 0; i < external_.size(); ++i) {
    c10::StorageImpl* storage = external_[i].storages.front().unsafeGetStorageImpl();
    void* data = storage->_mutable_data_ptr_no_checks().get();
    // Storages that overlap end where the last of them ends, and have not been resized.
    const auto bytes = external_[i].storages.size() == 1 ? static_cast<int64_t>(storage->nbytes())
                                                         : program().inputs[i].sizes.front().constant;
    moved |= bound_[i].data != data || bound_[i].capacity != bytes;
    bound_[i].data = data;
    bound_[i].capacity = bytes;
    bound_[i].sizes = &program().inputs[i].sizes.front().constant;
  }
  if (moved) ++version_;
}

void RecordedProgram::run(c10::Stream stream) {
  bind();
  const Inside inside;
  const runtime::CallingStream calling{.id = stream.id(), .device = stream.device_index(), .limits = {}};
  check_replay(executable_->run({.all = bound_, .version = version_, .stream = calling}, {}, dims_), program());
}

}  // namespace npugraph::capture
