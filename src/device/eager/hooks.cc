// SPDX-License-Identifier: Apache-2.0
#include "device/eager/hooks.h"

#include <atomic>

#include <ATen/core/Generator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "device/npu/facts.h"
#include "device/npu/generator.h"
#include "device/npu/memory.h"
#include "device/runtime/pinned_memory.h"

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

}  // namespace npugraph::eager
