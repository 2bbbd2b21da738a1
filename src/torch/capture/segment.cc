// SPDX-License-Identifier: Apache-2.0
#include "torch/capture/segment.h"

#include <utility>

#include "torch/bridge/aten_task.h"
#include "torch/bridge/run_result.h"
#include "torch/bridge/torch_host.h"
#include "torch/capture/build_program.h"
#include "torch/capture/registry.h"

namespace npugraph::capture {

class Segment::TaskHost final : public runtime::Host {
 public:
  // By position of the task in the Program.
  std::map<std::ptrdiff_t, std::vector<bridge::FixedArgument>> fixed;
  std::map<std::ptrdiff_t, std::shared_ptr<CollectiveCall>> collectives;

  ng_task build(const program::Program& program, const program::Task& task) override {
    const std::ptrdiff_t position = &task - program.tasks.data();
    if (const auto found = collectives.find(position); found != collectives.end())
      return found->second->build(found->second, program, task);
    const auto found = fixed.find(position);
    return found == fixed.end() ? torch_.build(program, task) : bridge::build_aten_task(program, task, found->second);
  }
  void* allocate(int64_t bytes, void** data) override { return torch_.allocate(bytes, data); }
  int64_t red_zone_bytes() const override { return torch_.red_zone_bytes(); }
  void retain(void* object) override { torch_.retain(object); }
  void release(void* object) override { torch_.release(object); }
  void* constant_object(const program::Constant& constant) override { return torch_.constant_object(constant); }

 private:
  bridge::TorchHost& torch_ = bridge::TorchHost::instance();
};

Segment::Segment(std::string name, RecordedStep step, const TouchedMemory& memory)
    : host_(std::make_unique<TaskHost>()) {
  for (size_t i = 0; i < step.launches.size(); ++i) {
    RecordedTask& launch = step.launches[i];
    const auto position = static_cast<std::ptrdiff_t>(i);
    if (!launch.fixed.empty()) host_->fixed.emplace(position, std::move(launch.fixed));
    if (launch.collective) host_->collectives.emplace(position, std::move(launch.collective));
  }
  auto [program, external] = build_program(name, step.launches, memory);
  external_ = std::move(external);
  executable_ = std::make_unique<runtime::Executable>(program, *host_, runtime::Options{}, std::move(name));
  bound_.resize(external_.size());
}

Segment::~Segment() = default;

void Segment::bind() {
  bool moved = version_ == 0;
  for (size_t i = 0; i < external_.size(); ++i) {
    c10::StorageImpl* storage = external_[i].storages.front().unsafeGetStorageImpl();
    void* data = storage->_mutable_data_ptr_no_checks().get();
    // Storages that overlap end where the last of them does, and have not been resized.
    const auto bytes = external_[i].storages.size() == 1 ? static_cast<int64_t>(storage->nbytes())
                                                         : program().inputs[i].sizes.front().constant;
    moved |= bound_[i].data != data || bound_[i].capacity != bytes;
    bound_[i].data = data;
    bound_[i].capacity = bytes;
    bound_[i].sizes = &program().inputs[i].sizes.front().constant;
  }
  if (moved) ++version_;
}

void Segment::run(c10::Stream stream) {
  bind();
  const Inside inside;
  const runtime::CallingStream calling{.id = stream.id(), .device = stream.device_index(), .limits = {}};
  bridge::check_run(executable_->run({.all = bound_, .version = version_, .stream = calling}, {}, dims_), program());
}

}  // namespace npugraph::capture
