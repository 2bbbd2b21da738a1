// SPDX-License-Identifier: Apache-2.0
// A device whose memory is that of this host under another name, as the backend sees it: its tensors are inputs and
// results of compiled graphs, whose tasks run on cpu tensors over the same memory. Everything that is special to the
// device is behind this interface. The module that makes the device registers one (device/runtime/for_graphs.h);
// without it, graphs are for cpu alone.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/SmallVector.h>

#include "backend/own_kernels/export.h"
#include "runtime/executable.h"

namespace npugraph::bridge {

// A call of a compiled graph, for a capture that records it.
struct GraphCall {
  std::shared_ptr<runtime::Executable> executable;
  runtime::BoundInputs inputs;
  std::vector<at::Tensor> tensors;  // one for each input, whose memory is bound; undefined for scalars
  std::vector<at::Tensor> written;  // the inputs that it writes
};

// Thread-safe. A device index is one that a Program or a tensor names; the process may have fewer devices.
class HostDevice {
 public:
  // A tensor of cpu over the memory of `tensor`, with its sizes and strides.
  virtual at::Tensor cpu_alias(const at::Tensor& tensor) const = 0;
  // A new storage of the device over the memory of `cpu`, which it keeps alive.
  virtual c10::Storage storage_over(c10::Storage cpu, c10::DeviceIndex index) const = 0;
  // The same over memory that somebody else owns, until own().
  virtual c10::Storage storage_over_lent(c10::Storage cpu, c10::DeviceIndex index) const = 0;
  // From now on, `storage` owns the memory of the storage of cpu under it, which may have been given other memory.
  virtual void own(c10::StorageImpl* storage) const = 0;
  // To be called after the storage of cpu under `storage` has been given other memory or another size.
  virtual void follow(c10::StorageImpl* storage) const = 0;
  // Makes a tensor of cpu one of the device, in `storage`, which is over its memory.
  virtual void move_into(c10::TensorImpl& cpu, c10::Storage storage) const = 0;

  // The stream on which the calling thread calls a graph for device `index`.
  virtual runtime::CallingStream calling_stream(c10::DeviceIndex index) const = 0;
  // Begins and ends work of the calling thread for the device, whose limit of memory applies to it.
  virtual void begin_work() const noexcept = 0;
  virtual void end_work() const noexcept = 0;
  // Throws the error of the device if `error`, from such work, says that the host lacks memory.
  virtual void check_memory(const std::exception& error, c10::DeviceIndex index) const = 0;
  // As runtime::Host::thread_state().
  virtual std::function<std::shared_ptr<void>()> thread_state() const = 0;

  // Whether record() has to be asked.
  virtual bool is_watching() const noexcept = 0;
  // If the calling thread's current stream of device `index`, or of its current device, is being captured: calls `run`,
  // which makes the call and returns its results, records the call, and returns true.
  virtual bool record(std::optional<c10::DeviceIndex> index, c10::function_ref<GraphCall()> call,
                      c10::function_ref<std::vector<at::Tensor>()> run) const = 0;
  // As runtime::Host::watch_capture().
  virtual std::shared_ptr<void> watch_capture(runtime::CaptureErrorMode mode) const = 0;

 protected:
  ~HostDevice() = default;
};

namespace detail {
NPUGRAPH_EXPORT extern std::atomic<const HostDevice*> host_device;
}

// The device of this process; null if there is none.
inline const HostDevice* host_device() noexcept { return detail::host_device.load(std::memory_order_acquire); }

// Registers `device`, which must live until the process ends, for the tensors of PrivateUse1.
NPUGRAPH_EXPORT void register_host_device(const HostDevice& device) noexcept;

// Whether `device` is that of register_host_device().
inline bool is_host_device(c10::Device device) noexcept {
  return device.type() == c10::DeviceType::PrivateUse1 && host_device() != nullptr;
}

// While it is alive, the calling thread works for the device, if there is one and `works` is true.
class DeviceWork {
 public:
  explicit DeviceWork(bool works) noexcept : device_(works ? host_device() : nullptr) {
    if (device_ != nullptr) device_->begin_work();
  }
  ~DeviceWork() {
    if (device_ != nullptr) device_->end_work();
  }
  DeviceWork(const DeviceWork&) = delete;
  DeviceWork& operator=(const DeviceWork&) = delete;

 private:
  const HostDevice* const device_;
};

// Storages of a device over storages of cpu, each made once, so that tensors that share memory share their storage. For
// the results of one call.
class StoragePairs {
 public:
  // `make(cpu)` makes a storage that keeps `cpu` alive.
  template <typename Make>
  const c10::Storage& over(const c10::Storage& cpu, const Make& make) {
    const auto* found = std::ranges::find(pairs_, cpu.unsafeGetStorageImpl(), &Pair::cpu);
    if (found != pairs_.end()) return found->made;
    pairs_.push_back({cpu.unsafeGetStorageImpl(), make(cpu)});
    return pairs_.back().made;
  }

 private:
  struct Pair {
    c10::StorageImpl* cpu;
    c10::Storage made;
  };
  c10::SmallVector<Pair, 2> pairs_;
};

}  // namespace npugraph::bridge
