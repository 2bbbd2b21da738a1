// SPDX-License-Identifier: Apache-2.0
// One call of a CPU kernel on npu tensors, without a copy: arguments go in as aliases over their host storages, results
// come out as npu tensors over the same memory.
//
//   CpuCall call("aten::add.Tensor");
//   at::Tensor out = call.result(at::add(call.read(x), call.read(y)));
//   call.finish();
//
// Belongs to one thread and one call. While it lives, operators of the thread run below autograd and autocast.
#pragma once

#include <utility>

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "backend/bridge/dispatch.h"
#include "backend/bridge/host_device.h"
#include "device/npu/facts.h"
#include "device/npu/host_limit.h"
#include "device/npu/memory.h"

namespace npugraph::eager {

class CpuCall {
 public:
  // `name` is for errors and lives as long as this object. `may_be_python` says that the kernel may be written in
  // Python.
  explicit CpuCall(const char* name, bool may_be_python = false) : name_(name), below_(may_be_python) {}
  ~CpuCall() {
    if (!written_.empty()) [[unlikely]]
      finish_late();
  }
  CpuCall(const CpuCall&) = delete;
  CpuCall& operator=(const CpuCall&) = delete;

  // Arguments must live as long as this object, and their aliases until the last result().
  //
  // Returns the alias of an argument that is only read; undefined and cpu tensors are returned as they are. c10::Error
  // if npu does not support the kind of tensor, or if it is on another device than the arguments before it: only cpu
  // tensors without dimensions may join npu tensors, unless `may_be_cpu`.
  at::Tensor read(const at::Tensor& argument, bool may_be_cpu = false);
  // The same for an argument that the kernel may write or resize; it must not be on cpu beside others on npu.
  at::Tensor write(const at::Tensor& argument);

  // Sets the device of new tensors if no argument is on npu; the default is the current device.
  void set_device(c10::DeviceIndex device) { device_ = device; }
  bool is_on_npu() const { return device_ >= 0; }
  c10::DeviceIndex device() const { return device_ >= 0 ? device_ : npu::current_device(); }

  // Returns the result of `kernel`, the call of the CPU kernel.
  // c10::OutOfMemoryError if the host lacks the memory that it needs.
  template <typename F>
  decltype(auto) run(F&& kernel) {
    try {
      return std::forward<F>(kernel)();
    } catch (const c10::Error& error) {
      rethrow(error);
    }
  }

  // The npu tensor for a result of the kernel: the argument itself, a view of an argument, or a new tensor.
  at::Tensor result(at::Tensor from_kernel);

  // To be called after the kernel: arguments take over the sizes and the memory that it gave to their aliases. Done by
  // the destructor if the kernel throws.
  void finish() {
    if (!written_.empty()) take_over_written();
  }

 private:
  struct Argument {
    c10::TensorImpl* npu;
    c10::TensorImpl* alias;
  };
  struct Written {
    c10::TensorImpl* npu;
    at::Tensor alias;
  };

  at::Tensor alias(const at::Tensor& argument, bool written);
  void take_over(const Written& argument);
  void take_over_written();
  void finish_late() noexcept;
  void check_device(const at::Tensor& argument, bool may_be_cpu);
  // The npu storage over the memory of a CPU storage; null if that memory belongs to an argument on cpu.
  c10::Storage npu_storage(const c10::Storage& cpu);
  [[noreturn]] void fail_devices(const at::Tensor& argument) const;
  // To be called in the handler of `error`.
  [[noreturn]] void rethrow(const c10::Error& error) const;

  const char* name_;
  c10::DeviceIndex device_ = -1;
  c10::SmallVector<Argument, 6> arguments_;
  c10::SmallVector<Written, 2> written_;  // until they are taken over
  bridge::StoragePairs made_;
  c10::SmallVector<c10::StorageImpl*, 2> on_cpu_;  // of arguments on cpu
  bool has_large_cpu_ = false;                     // one of them has dimensions
  bridge::BelowAutograd below_;
  npu::AllocatesForDevice allocates_;
};

}  // namespace npugraph::eager
