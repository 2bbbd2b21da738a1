// SPDX-License-Identifier: Apache-2.0
#include "device/runtime/for_graphs.h"

#include <optional>
#include <utility>

#include "backend/bridge/host_device.h"
#include "device/capture/capture.h"
#include "device/capture/compiled_call.h"
#include "device/npu/call_record.h"
#include "device/npu/facts.h"
#include "device/npu/host_limit.h"
#include "device/npu/memory.h"
#include "device/npu/tensor.h"
#include "device/runtime/streams.h"
#include "runtime/observation.h"

namespace npugraph::device {
namespace {

// What one thread does for others: whether it works for a device, and whether its operators are being captured.
struct ThreadState {
  std::optional<npu::Captured> captured;
  std::optional<npu::AllocatesForDevice> for_device;
};

class NpuForGraphs final : public bridge::HostDevice {
 public:
  at::Tensor cpu_alias(const at::Tensor& tensor) const override { return npu::cpu_alias(tensor); }
  c10::Storage storage_over(c10::Storage cpu, c10::DeviceIndex index) const override {
    return npu::adopt(std::move(cpu), index);
  }
  c10::Storage storage_over_lent(c10::Storage cpu, c10::DeviceIndex index) const override {
    return npu::adopt_lent(std::move(cpu), index);
  }
  void own(c10::StorageImpl* storage) const override {
    npu::follow_host_storage(storage);
    npu::count(storage);
  }
  void follow(c10::StorageImpl* storage) const override { npu::follow_host_storage(storage); }
  void move_into(c10::TensorImpl& cpu, c10::Storage storage) const override { npu::move_into(cpu, std::move(storage)); }

  runtime::CallingStream calling_stream(c10::DeviceIndex index) const override {
    if (index >= npu::facts().devices) return {};
    const c10::Stream stream = current_stream(index);
    return {.id = stream.id(), .device = stream.device_index(), .limits = limits_in_force(stream)};
  }
  void begin_work() const noexcept override { ++npu::this_call.works_for_device; }
  void end_work() const noexcept override { --npu::this_call.works_for_device; }
  void check_memory(const std::exception& error, c10::DeviceIndex index) const override {
    if (const auto refused = npu::refused_by_host(error.what()); refused && index < npu::facts().devices)
      npu::DeviceMemory::of(index).fail_on_host(*refused, index);
  }
  std::function<std::shared_ptr<void>()> thread_state() const override {
    const bool captured = npu::is_captured(), for_device = npu::allocates_for_device();
    if (!captured && !for_device) return {};
    return [=] {
      auto state = std::make_shared<ThreadState>();
      if (captured) state->captured.emplace();
      if (for_device) state->for_device.emplace();
      return state;
    };
  }

  bool is_watching() const noexcept override { return capture::is_watching(); }
  bool record(std::optional<c10::DeviceIndex> index, c10::function_ref<bridge::GraphCall()> call,
              c10::function_ref<std::vector<at::Tensor>()> run) const override {
    const c10::Stream stream = current_stream(index.value_or(npu::current_device()));
    const auto capture = capture::recorder_of(stream);
    if (!capture) return false;
    bridge::GraphCall made = call();
    const std::shared_ptr<runtime::Executable> executable = made.executable;
    const auto recorded = std::make_shared<capture::CompiledCall>(executable, made.inputs, std::move(made.tensors));
    std::vector<at::Tensor> results;
    capture->launch(recorded, made.written, stream, [&] { results = run(); });
    recorded->set_results(std::move(results));
    runtime::note_capture_in_graph(*executable);
    return true;
  }
  std::shared_ptr<void> watch_capture(runtime::CaptureErrorMode mode) const override {
    return std::make_shared<capture::CompiledCapture>(mode);
  }
};

}  // namespace

void register_for_graphs() {
  static const NpuForGraphs npu;
  bridge::register_host_device(npu);
}

}  // namespace npugraph::device
