// SPDX-License-Identifier: Apache-2.0
// What torch asks of a backend besides its allocator and its guard: facts of the device, graphs, formats in files.
#include <atomic>
#include <charconv>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include <ATen/core/Generator.h>
#include <ATen/core/GraphImplInterface.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceType.h>
#include <torch/csrc/jit/serialization/pickler_helper.h>

#include "device/capture/captured_graph.h"
#include "device/eager/register.h"
#include "device/npu/facts.h"
#include "device/npu/format.h"
#include "device/npu/generator.h"
#include "device/npu/memory.h"
#include "device/runtime/pinned_memory.h"
#include "device/runtime/streams.h"

namespace npugraph::eager {

using namespace npu;

namespace {

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return facts().devices > 0; }
  // Using a device sets nothing up, so there is no reason to avoid it.
  bool hasPrimaryContext(at::DeviceIndex) const override { return true; }
  void init() const override {}

  at::DeviceIndex deviceCount() const override { return static_cast<at::DeviceIndex>(facts().devices); }
  at::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(at::DeviceIndex device) const override { set_current_device(checked_device(device)); }
  at::DeviceIndex exchangeDevice(at::DeviceIndex device) const override {
    const at::DeviceIndex before = current_device();
    setCurrentDevice(device);
    return before;
  }
  // -1 leaves the device as it is.
  at::DeviceIndex maybeExchangeDevice(at::DeviceIndex device) const override { return exchangeDevice(device); }

  const at::Generator& getDefaultGenerator(at::DeviceIndex device) const override { return default_generator(device); }
  at::Generator getNewGenerator(at::DeviceIndex device) const override {
    return at::make_generator<NpuGenerator>(checked_device(device));
  }

  at::Device getDeviceFromPtr(void* pointer) const override {
    if (const auto device = device_of(pointer)) return {kNpu, *device};
    TORCH_CHECK(false, "the pointer ", pointer, " is not into memory of npu");
  }
  bool isPinnedPtr(const void* pointer) const override { return device::is_pinned(pointer); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &device::pinned_allocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize(storage.unsafeGetStorageImpl(), bytes);
  }
};

}  // namespace

void register_hooks() { at::RegisterPrivateUse1HooksInterface(new Hooks); }

namespace {

capture::ErrorMode mode_of(at::GraphCaptureMode mode) {
  switch (mode) {
    case at::GraphCaptureMode::ThreadLocal: return capture::ErrorMode::kThreadLocal;
    case at::GraphCaptureMode::Relaxed: return capture::ErrorMode::kRelaxed;
    default: return capture::ErrorMode::kGlobal;
  }
}

c10::Stream here() { return device::current_stream(npu::current_device()); }

class Graph final : public at::GraphImplInterface {
 public:
  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode mode) override {
    graph_->begin(here(), pool, mode_of(mode));
  }
  void capture_end() override { graph_->end(here()); }
  // A capture is ready to run when it ends.
  void instantiate() override {}
  void replay() override { graph_->replay(here()); }
  void reset() override { graph_->reset(); }
  c10::MempoolId_t pool() const override { return graph_->pool(); }
  void enable_debug_mode() override {}
  void debug_dump(const std::string& path) override {
    std::ofstream file(path);
    file << graph_->text();
    TORCH_CHECK(file.flush().good(), "debug_dump: cannot write ", path);
  }

 private:
  std::shared_ptr<capture::CapturedGraph> graph_ = std::make_shared<capture::CapturedGraph>();
};

}  // namespace

void register_graphs() {
  at::GraphImplRegistry()->Register(
      c10::DeviceTypeName(npu::kNpu, /*lower_case=*/false),
      [](const at::GraphImplArgs&) -> std::unique_ptr<at::GraphImplInterface> { return std::make_unique<Graph>(); });
}

namespace {

// torch keeps a boolean for each name, so each format is a name.
using Metadata = std::unordered_map<std::string, bool>;
constexpr std::string_view kName = "npu_format_";

void put_format(const at::Tensor& tensor, Metadata& metadata) {
  if (!tensor.has_storage() || tensor.storage().device().type() != npu::kNpu) return;  // a fake tensor
  if (const int format = npu::format_of(tensor); format != kPlainFormat)
    metadata[std::string(kName) + std::to_string(format)] = true;
}

void take_format(const at::Tensor& tensor, Metadata& metadata) {
  for (const auto& [name, is_set] : metadata) {
    if (!is_set || !name.starts_with(kName)) continue;
    int code = 0;
    std::from_chars(name.data() + kName.size(), name.data() + name.size(), code);
    npu::check_format("torch.load", code);
    npu::set_format(tensor, code);
  }
}

}  // namespace

void register_serialized_format() { torch::jit::TensorBackendMetaRegistry(npu::kNpu, &put_format, &take_format); }

}  // namespace npugraph::eager
