// SPDX-License-Identifier: Apache-2.0
#include "device/runtime/streams.h"

#include <array>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "base/fork.h"
#include "base/trace.h"
#include "device/npu/facts.h"

namespace npugraph::device {

using namespace npu;

namespace {

thread_local std::array<c10::StreamId, kMaxDevices> current_ids{};

c10::Stream stream_of(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNpu, device), id);
}

c10::DeviceIndex index_of(c10::Device device) { return device.has_index() ? device.index() : current_device(); }

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kNpu; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    if (device != before) setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {kNpu, current_device()}; }
  void setDevice(c10::Device device) const override { set_current_device(checked_device(device.index())); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) set_current_device(device.index());
  }
  // All element types: torch sets their bits by default.
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(facts().devices); }

  c10::Stream getStream(c10::Device device) const override { return current_stream(index_of(device)); }
  c10::Stream getDefaultStream(c10::Device device) const override { return default_stream(index_of(device)); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return new_stream(index_of(device)); }
  c10::Stream getNewStream(c10::Device device, int) const override { return new_stream(index_of(device)); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>(handle_of(stream));
  }
  bool queryStream(const c10::Stream& stream) const override {
    capture::check_host_may_wait("Stream.query()", stream);
    return true;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    capture::check_host_may_wait("Stream.synchronize()", stream);
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    capture::check_host_may_wait("synchronize()", device >= 0 ? device : current_device());
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(device == -1 || device == stream.device_index(), "an event of npu:", static_cast<int>(device),
                " cannot be recorded on a stream of npu:", static_cast<int>(stream.device_index()));
    if (*event == nullptr) *event = new Event(flag == c10::EventFlag::BACKEND_DEFAULT);
    static_cast<Event*>(*event)->record(stream);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) capture::wait_for(static_cast<Event*>(event)->mark(), stream);
  }
  bool queryEvent(void* event) const override {
    if (event != nullptr) capture::check_host_may_wait("Event.query()", static_cast<Event*>(event)->mark());
    return true;
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) capture::check_host_may_wait("Event.synchronize()", static_cast<Event*>(event)->mark());
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  double elapsedTime(void* begin, void* end, const c10::DeviceIndex) const override {
    return milliseconds_between(timed_event(begin), timed_event(end));
  }
};

}  // namespace

c10::Stream default_stream(c10::DeviceIndex device) { return stream_of(device, 0); }

c10::Stream new_stream(c10::DeviceIndex device) {
  static std::atomic<c10::StreamId> last = 0;
  return stream_of(device, last.fetch_add(1, std::memory_order_relaxed) + 1);
}

uintptr_t handle_of(c10::Stream stream) {
  return (static_cast<uintptr_t>(stream.id()) + 1) * kMaxDevices + static_cast<uintptr_t>(stream.device_index());
}

c10::Stream stream_of_handle(uintptr_t handle) {
  TORCH_CHECK(handle >= kMaxDevices, "no stream has the handle ", handle);
  return stream_of(checked_device(static_cast<int64_t>(handle % kMaxDevices)),
                   static_cast<c10::StreamId>(handle / kMaxDevices - 1));
}

c10::Stream current_stream(c10::DeviceIndex device) {
  return stream_of(device, current_ids[static_cast<size_t>(device)]);
}

c10::Stream exchange_stream(c10::Stream stream) {
  c10::StreamId& id = current_ids[static_cast<size_t>(stream.device_index())];
  return stream_of(stream.device_index(), std::exchange(id, stream.id()));
}

void Event::record(c10::Stream stream) {
  stream_.store(stream.id(), std::memory_order_relaxed);
  nanoseconds_.store(now_ns(), std::memory_order_release);
  capture::Mark mark = capture::mark(stream);
  const std::lock_guard lock(mutex_);
  mark_ = std::move(mark);
}

capture::Mark Event::mark() const {
  if (!capture::is_watching()) return {};
  const std::lock_guard lock(mutex_);
  return mark_;
}

const Event& timed_event(const void* address) {
  const auto* event = static_cast<const Event*>(address);
  TORCH_CHECK(event != nullptr && event->is_recorded(), "the event was not recorded");
  TORCH_CHECK(event->is_timed(), "the event keeps no time: make it with enable_timing=True");
  return *event;
}

double milliseconds_between(const Event& begin, const Event& end) {
  return static_cast<double>(end.nanoseconds() - begin.nanoseconds()) * 1e-6;
}

void register_guard() { static const c10::impl::DeviceGuardImplRegistrar registrar(kNpu, new Guard); }

namespace {

std::atomic<bool> any_set = false;

struct Limits {
  std::mutex mutex;
  const HeldAcrossFork held_across_fork{mutex, 1};
  std::unordered_map<c10::DeviceIndex, CoreLimits> of_device;
  std::unordered_map<c10::Stream, CoreLimits> of_stream;
};

Limits& all_limits() {
  static auto* all = new Limits;  // threads may outlive static destruction
  return *all;
}

CoreLimits all_cores() { return {npu::facts().cube_cores, npu::facts().vector_cores}; }

// Called under the mutex.
CoreLimits find_device(const Limits& set, c10::DeviceIndex device) {
  const auto found = set.of_device.find(device);
  return found == set.of_device.end() ? all_cores() : found->second;
}

}  // namespace

CoreLimits device_limits(c10::DeviceIndex device) {
  const std::lock_guard lock(all_limits().mutex);
  return find_device(all_limits(), device);
}

void limit_device(c10::DeviceIndex device, CoreLimits wanted) {
  const std::lock_guard lock(all_limits().mutex);
  all_limits().of_device[device] = wanted;
  any_set.store(true, std::memory_order_release);
}

CoreLimits stream_limits(c10::Stream stream) {
  const std::lock_guard lock(all_limits().mutex);
  const auto own = all_limits().of_stream.find(stream);
  return own == all_limits().of_stream.end() ? find_device(all_limits(), stream.device_index()) : own->second;
}

void limit_stream(c10::Stream stream, CoreLimits wanted) {
  const std::lock_guard lock(all_limits().mutex);
  all_limits().of_stream[stream] = wanted;
  any_set.store(true, std::memory_order_release);
}

void reset_stream_limits(c10::Stream stream) {
  const std::lock_guard lock(all_limits().mutex);
  all_limits().of_stream.erase(stream);
}

CoreLimits limits_in_force(c10::Stream stream) {
  if (!any_set.load(std::memory_order_acquire)) return {};
  CoreLimits found = stream_limits(stream);
  if (found.cube >= all_cores().cube) found.cube = 0;
  if (found.vector >= all_cores().vector) found.vector = 0;
  return found;
}

}  // namespace npugraph::device
