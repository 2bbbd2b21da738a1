// SPDX-License-Identifier: Apache-2.0
#include "device/runtime/core_limits.h"

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "base/fork.h"
#include "device/npu/facts.h"

namespace npugraph::device {
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
