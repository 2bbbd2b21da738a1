// SPDX-License-Identifier: Apache-2.0
// Operators that make, reshape and copy npu tensors: what a device must bring itself.
#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h>
#include <ATen/Operators.h>
#include <ATen/ops/_conj_physical.h>

#include "device/capture/registry.h"
#include "device/eager/boxed.h"
#include "device/eager/cpu_call.h"
#include "device/eager/register.h"
#include "device/npu/format.h"
#include "device/npu/memory.h"
#include "device/npu/tensor.h"
#include "device/runtime/pinned_memory.h"
#include "device/runtime/streams.h"

namespace npugraph::eager {

using namespace npu;

namespace {

using at::IntArrayRef;
using at::Tensor;
using std::optional;

constexpr c10::DispatchKeySet kNpuKeys(c10::DispatchKey::PrivateUse1);

c10::DeviceIndex checked_index(optional<at::Device> device) {
  return device.has_value() ? checked_device(device->index()) : current_device();
}

void check_options(optional<at::Layout> layout, optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(!layout.has_value() || *layout == at::kStrided, "tensors of layout ", *layout,
                              " are not supported on npu, only those of torch.strided");
  TORCH_CHECK(!pin_memory.value_or(false), "only tensors of cpu can be pinned, not those of npu");
}

Tensor empty(IntArrayRef sizes, optional<at::ScalarType> dtype, optional<at::Layout> layout,
             optional<at::Device> device, optional<bool> pin_memory, optional<at::MemoryFormat> format) {
  check_options(layout, pin_memory);
  const CurrentDevice current(checked_index(device));
  return at::detail::empty_generic(sizes, &NpuAllocator::instance(), kNpuKeys, c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, optional<at::ScalarType> dtype,
                     optional<at::Layout> layout, optional<at::Device> device, optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  const CurrentDevice current(checked_index(device));
  return at::detail::empty_strided_generic(sizes, strides, &NpuAllocator::instance(), kNpuKeys,
                                           c10::dtype_or_default(dtype));
}

const Tensor& resize_(const Tensor& self, IntArrayRef sizes, optional<at::MemoryFormat> format) {
  const CurrentDevice current(self.device().index());
  return at::native::resize_(self, sizes, format);
}

Tensor& set_storage(Tensor& self, at::Storage source, int64_t offset, IntArrayRef sizes, IntArrayRef strides) {
  const CurrentDevice current(self.device().index());
  return at::native::set_storage_cpu_(self, std::move(source), offset, sizes, strides);
}

Tensor& set_empty(Tensor& self) {
  const CurrentDevice current(self.device().index());
  at::Storage none(c10::Storage::use_byte_size_t(), 0, &NpuAllocator::instance(), true);
  return self.set_(std::move(none), 0, {0}, {});
}

// The copy has the format of the original.
Tensor clone(const Tensor& self, optional<at::MemoryFormat> format) {
  Tensor out = at::native::clone(self, format);
  set_format(out, format_of(self));
  return out;
}

void record_stream(Tensor& self, at::Stream stream) {
  NpuAllocator::instance().recordStream(self.storage().data_ptr(), stream);
}

// `tensor`, of cpu or npu, as a CPU tensor.
Tensor on_cpu(const Tensor& tensor, const char* name) {
  TORCH_CHECK(tensor.device().is_cpu() || tensor.device().type() == kNpu, name, ": cannot copy between npu and ",
              tensor.device());
  check_kind(tensor, name);
  return tensor.device().is_cpu() ? tensor : cpu_alias(tensor);
}

void run_copy(const Tensor& self, const Tensor& dst) {
  const bridge::BelowAutograd below;
  Tensor to = on_cpu(dst, at::_ops::copy_::name);
  to.copy_(on_cpu(self, at::_ops::copy_::name));
}

// Non-blocking copies between device memory and pinned memory run in the stream; for all others the host waits for it.
void check_copy(const Tensor& self, const Tensor& dst, bool non_blocking) {
  const bool to_host = dst.device().is_cpu();
  if (to_host == self.device().is_cpu()) return;
  const Tensor& host = to_host ? dst : self;
  const c10::Stream stream = device::current_stream((to_host ? self : dst).device().index());
  if (!device::is_pinned(host.storage().data())) {
    capture::check_host_may_wait("copy_ between npu and memory of cpu that is not pinned", stream);
  } else if (!non_blocking) {
    capture::check_host_may_wait("copy_ between npu and cpu without non_blocking=True", stream);
  }
}

// Captures do not support lazily conjugated or negated tensors.
Tensor without_lazy_bits(const Tensor& tensor) {
  Tensor out = tensor;
  if (out.is_conj()) out = at::_conj_physical(out.conj());
  if (out.is_neg()) out = out._neg_view().neg();
  return out;
}

// A copy between devices belongs to the one of their two streams that is captured; else to the destination's.
c10::Stream stream_of_copy(const Tensor& self, const Tensor& dst) {
  const c10::Stream of_dst = device::current_stream((dst.device().is_cpu() ? self : dst).device().index());
  if (self.device().is_cpu() || capture::capture_of(of_dst)) return of_dst;
  const c10::Stream of_self = device::current_stream(self.device().index());
  return capture::capture_of(of_self) ? of_self : of_dst;
}

void copy_watched(const Tensor& self, const Tensor& dst, bool non_blocking) {
  check_copy(self, dst, non_blocking);
  if (dst.is_conj()) return copy_watched(self.conj(), dst.conj(), non_blocking);
  if (dst.is_neg()) return copy_watched(self._neg_view(), dst._neg_view(), non_blocking);
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(at::_ops::copy_::name, "");
  const Tensor from = without_lazy_bits(self);
  torch::jit::Stack stack{dst, from, non_blocking};
  launch_watched(op, stack, stream_of_copy(from, dst), [&] {
    torch::jit::drop(stack, 3);
    run_copy(from, dst);
    stack.push_back(dst);
  });
}

Tensor copy_from(const Tensor& self, const Tensor& dst, bool non_blocking) {
  if (capture::is_watching()) [[unlikely]]
    copy_watched(self, dst, non_blocking);
  else
    run_copy(self, dst);
  return dst;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& dst) {
  if (self.sizes() != dst.sizes()) dst.resize_(self.sizes());
  return copy_from(self, dst, false);
}

at::Scalar local_scalar_dense(const Tensor& self) {
  capture::check_host_may_wait("item()", device::current_stream(self.device().index()));
  return at::native::_local_scalar_dense_cpu(on_cpu(self, at::_ops::_local_scalar_dense::name));
}

// Whether `x.data = y` keeps x, so that a module that is moved keeps its parameters, and lazy parameters stay lazy.
bool has_compatible_shallow_copy_type(const Tensor& self, const Tensor& from) {
  auto is_dense = [](const Tensor& tensor) {
    const c10::DispatchKeySet keys = tensor.key_set();
    return keys.has(c10::DispatchKey::Dense) &&
           (keys.has_backend(c10::BackendComponent::PrivateUse1Bit) || keys.has_backend(c10::BackendComponent::CPUBit));
  };
  return is_dense(self) && is_dense(from);
}

}  // namespace

void register_factories(torch::Library& library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("unfold", &at::native::unfold);
  library.impl("resize_", &resize_);
  library.impl("set_.source_Storage", &at::native::set_);
  library.impl("set_.source_Tensor", &at::native::set_tensor_);
  library.impl("set_.source_Storage_storage_offset", &set_storage);
  library.impl("set_", &set_empty);
  library.impl("clone", &clone);
  library.impl("record_stream", &record_stream);
  library.impl("_copy_from", &copy_from);  // takes conjugate and negative tensors as they are
  for (const auto key : {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}) {
    auto* lazy = new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
    lazy->impl("_copy_from", torch::CppFunction::makeFallthrough());
  }
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("_local_scalar_dense", &local_scalar_dense);
  library.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
}

}  // namespace npugraph::eager
