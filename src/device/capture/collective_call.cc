// SPDX-License-Identifier: Apache-2.0
#include "device/capture/collective_call.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "backend/bridge/dispatch.h"
#include "backend/bridge/task_functions.h"
#include "device/capture/capture.h"
#include "device/npu/collective_recorder.h"

namespace npugraph::capture {
namespace {

struct State {};

// Bytes of a storage that a tensor may touch.
struct Window {
  const c10::StorageImpl* storage;
  size_t begin, end;
};

Window window_of(const at::Tensor& tensor) {
  const auto offset = static_cast<size_t>(tensor.storage_offset());
  const c10::StorageImpl* storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  const size_t end = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize(), offset);
  return {storage, offset * tensor.itemsize(), end};
}

bool overlap(const Tensors& tensors, const Window& window) {
  return std::ranges::any_of(tensors, [&](const at::Tensor& tensor) {
    const Window own = window_of(tensor);
    return own.storage == window.storage && own.begin < window.end && window.begin < own.end;
  });
}

}  // namespace

bool BegunCollective::precedes(const at::Tensor& tensor, bool writes) const {
  if (tensor.layout() != at::kStrided) return false;
  const Window window = window_of(tensor);
  return overlap(outputs, window) || (writes && overlap(inputs, window));
}

void CollectiveCall::await() const {
  const auto capture = begun_.capture.lock();
  if (!capture || capture_of(capture->origin()) != capture) return;
  const c10::Device device = capture->origin().device();
  wait_for(begun_, c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  capture->await(*this);
}

class CollectiveCall::BeginTask {
 public:
  BeginTask(std::shared_ptr<CollectiveCall> call, const program::Program& program, const program::Task& task)
      : call_(std::move(call)), declared_(program, task) {}

  void bind(State&, const ng_call*) const {}
  void run(State&, ng_call* call) const {
    const bridge::BelowAutograd below;
    const at::NoGradGuard no_grad;
    const bridge::TaskScope scope(declared_.name());
    const auto& operands = declared_.operands();
    auto under_way = c10::make_intrusive<bridge::UnderWay>(operands.size());
    Tensors inputs, outputs;
    for (size_t i = 0; i < operands.size(); ++i)
      (i < call_->inputs_ ? inputs : outputs).push_back(under_way->tensor(operands[i], call->buffers[i]));
    under_way->add(call_->begin_(inputs, outputs), {});
    call_->under_way_ = std::move(under_way);
  }
  void finish(State&, const ng_call*) const noexcept {}

 private:
  const std::shared_ptr<CollectiveCall> call_;
  const bridge::Declared declared_;
};

class CollectiveCall::WaitTask {
 public:
  explicit WaitTask(std::shared_ptr<CollectiveCall> call) : call_(std::move(call)) {}

  void bind(State&, const ng_call*) const {}
  void run(State&, ng_call*) const {
    const auto under_way = std::exchange(call_->under_way_, nullptr);
    if (under_way) under_way->wait();
  }
  void finish(State&, const ng_call*) const noexcept {}

 private:
  const std::shared_ptr<CollectiveCall> call_;
};

ng_task CollectiveCall::build(const std::shared_ptr<CollectiveCall>& self, const program::Program& program,
                              const program::Task& task) {
  if (task.name == program::kWaitTask) return bridge::task_of<State>(std::make_unique<WaitTask>(self));
  return bridge::task_of<State>(std::make_unique<BeginTask>(self, program, task));
}

namespace {

class GraphCollectiveRecorder final : public npu::CollectiveRecorder {
 public:
  bool is_watching() const override { return capture::is_watching(); }

  bool record(npu::CollectiveLaunch launch, c10::Stream stream,
              c10::function_ref<WorkPtr(const std::shared_ptr<const npu::RecordedCollective>&)> run) const override {
    const auto capture = recorder_of(stream);
    if (!capture) return false;
    if (launch.host_reads) check_host_may_wait(launch.title, stream);
    const auto call = std::make_shared<CollectiveCall>(std::move(launch.name), std::move(launch.group),
                                                       launch.inputs.size(), std::move(launch.replay));
    capture->launch(call, std::move(launch.inputs), std::move(launch.outputs), stream, [&] { return run(call); });
    return true;
  }
};

}  // namespace

void install_collective_recorder() {
  static const GraphCollectiveRecorder& recorder = *new GraphCollectiveRecorder;
  npu::set_collective_recorder(&recorder);
}

}  // namespace npugraph::capture
