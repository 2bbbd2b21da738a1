// SPDX-License-Identifier: Apache-2.0
#include "device/eager/cpu_call.h"

#include <algorithm>
#include <exception>

#include "base/error.h"
#include "base/log.h"
#include "device/npu/memory.h"
#include "device/npu/tensor.h"

namespace npugraph::eager {

using namespace npu;

namespace {

using c10::TensorImpl;

template <typename T>
c10::intrusive_ptr<T> share(T* object) {
  return c10::intrusive_ptr<T>::reclaim_copy(object);
}

c10::StorageImpl* storage_of(const TensorImpl& tensor) { return tensor.unsafe_storage().unsafeGetStorageImpl(); }

}  // namespace

void CpuCall::fail_devices(const at::Tensor& argument) const {
  const std::string other = device_ >= 0 ? c10::Device(kNpu, device_).str() : "cpu";
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", other, " and ",
              argument.device(), "! (in ", name_, ")");
}

void CpuCall::rethrow(const c10::Error& error) const {
  if (const auto bytes = refused_by_host(error.msg())) DeviceMemory::of(device()).fail_on_host(*bytes, device());
  throw;
}

void CpuCall::check_device(const at::Tensor& argument, bool may_be_cpu) {
  const c10::Device device = argument.device();
  if (device.type() == kNpu) [[likely]] {
    if (has_large_cpu_ || (device_ >= 0 && device_ != device.index())) fail_devices(argument);
    device_ = device.index();
    return;
  }
  if (!device.is_cpu() || (argument.dim() > 0 && !may_be_cpu && device_ >= 0)) fail_devices(argument);
  has_large_cpu_ |= argument.dim() > 0 && !may_be_cpu;
  if (argument.has_storage()) on_cpu_.push_back(storage_of(*argument.unsafeGetTensorImpl()));
}

at::Tensor CpuCall::read(const at::Tensor& argument, bool may_be_cpu) {
  if (!argument.defined()) return argument;
  check_device(argument, may_be_cpu);
  return alias(argument, false);
}

at::Tensor CpuCall::write(const at::Tensor& argument) {
  if (!argument.defined()) return argument;
  if (argument.device().is_cpu()) {
    if (device_ >= 0) fail_devices(argument);
    has_large_cpu_ = true;
  }
  check_device(argument, false);
  return alias(argument, true);
}

at::Tensor CpuCall::alias(const at::Tensor& argument, bool written) {
  if (argument.device().is_cpu()) return argument;
  check_kind(argument, name_);
  at::Tensor out = cpu_alias(argument);
  arguments_.push_back({argument.unsafeGetTensorImpl(), out.unsafeGetTensorImpl()});
  if (written) written_.push_back({argument.unsafeGetTensorImpl(), out});
  return out;
}

c10::Storage CpuCall::npu_storage(const c10::Storage& cpu) {
  c10::StorageImpl* storage = cpu.unsafeGetStorageImpl();
  for (const Argument& argument : arguments_)
    if (host_storage_of(storage_of(*argument.npu)) == storage) return argument.npu->unsafe_storage();
  if (std::find(on_cpu_.begin(), on_cpu_.end(), storage) != on_cpu_.end()) return {};
  return made_.over(cpu, [&](const c10::Storage& host) { return adopt(host, device()); });
}

at::Tensor CpuCall::result(at::Tensor from_kernel) {
  if (!from_kernel.defined()) return from_kernel;
  TensorImpl& impl = *from_kernel.unsafeGetTensorImpl();
  const bool is_held = from_kernel.use_count() > 1;
  if (!is_held && impl.unsafe_storage().use_count() == 1 && from_kernel.device().is_cpu()) [[likely]] {
    check_kind(from_kernel, name_);
    move_to_npu(impl, device());  // memory of no argument
    return from_kernel;
  }
  for (const Argument& argument : arguments_)
    if (argument.alias == &impl) return at::Tensor(share(argument.npu));
  if (!from_kernel.device().is_cpu()) return from_kernel;
  check_kind(from_kernel, name_);
  c10::Storage storage = npu_storage(from_kernel.storage());
  if (!storage) return from_kernel;
  // Other holders of the kernel's tensor keep a CPU tensor.
  if (is_held) from_kernel = at::Tensor(impl.shallow_copy_and_detach(c10::VariableVersion(0), true));
  npu::move_into(*from_kernel.unsafeGetTensorImpl(), std::move(storage));
  return from_kernel;
}

// Called while another exception propagates.
void CpuCall::finish_late() noexcept {
  try {
    take_over_written();
  } catch (const std::exception& error) {
    log_warning(cat(name_, ": ", error.what()));
  }
}

void CpuCall::take_over(const Written& argument) {
  TensorImpl& npu = *argument.npu;
  const TensorImpl& alias = *argument.alias.unsafeGetTensorImpl();
  if (!same_geometry(alias, npu)) [[unlikely]]
    npu.set_sizes_and_strides(alias.sizes(), alias.strides(), alias.storage_offset());
  if (alias.is_conj() != npu.is_conj()) npu._set_conj(alias.is_conj());
  if (alias.is_neg() != npu.is_neg()) npu._set_neg(alias.is_neg());
  if (storage_of(alias) == host_storage_of(storage_of(npu))) [[likely]]
    follow_host_storage(storage_of(npu));
  else
    npu.set_storage_keep_dtype(npu_storage(alias.storage()));
}

void CpuCall::take_over_written() {
  const auto written = std::move(written_);
  written_.clear();
  std::exception_ptr out_of_memory;  // thrown last: every argument must first let go of freed memory
  for (const Written& argument : written) {
    try {
      take_over(argument);
    } catch (const c10::OutOfMemoryError&) {
      out_of_memory = std::current_exception();
    }
  }
  if (out_of_memory) std::rethrow_exception(out_of_memory);
}

}  // namespace npugraph::eager
