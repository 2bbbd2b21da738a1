// SPDX-License-Identifier: Apache-2.0
// npu tensors as cpu tensors and back, over the same memory.
#pragma once

#include <ATen/core/Tensor.h>

#include "device/npu/facts.h"

namespace npugraph::npu {

// Endings of error messages about kinds of tensors that npu does not support.
inline constexpr const char* kOnCpuInstead = "; .cpu() brings the operands to where this works";
inline constexpr const char* kQuantisedRefused =
    ": quantised tensors are not supported on npu; npu_quantize and npu_quant_matmul work on tensors of int8";

inline bool is_npu(const at::Tensor& tensor) { return tensor.device().type() == kNpu; }

// Whether sizes, strides and offsets are the same; they may not be symbolic.
inline bool same_geometry(const c10::TensorImpl& a, const c10::TensorImpl& b) {
  const c10::IntArrayRef sizes = a.sizes(), strides = a.strides(), b_sizes = b.sizes(), b_strides = b.strides();
  if (a.storage_offset() != b.storage_offset() || sizes.size() != b_sizes.size()) return false;
  for (size_t dim = 0; dim < sizes.size(); ++dim)
    if (sizes[dim] != b_sizes[dim] || strides[dim] != b_strides[dim]) return false;
  return true;
}

// A CPU tensor over the host storage of an npu tensor, with its sizes, strides, and conjugate and negative bits.
at::Tensor cpu_alias(const at::Tensor& npu);
// Takes back a result of cpu_alias() that is no longer needed, so that the thread's next alias costs less. Does nothing
// if the tensor has other holders.
void reuse_alias(at::Tensor alias);

// Moves a CPU tensor into `storage`, an npu storage over the same memory.
void move_into(c10::TensorImpl& cpu, c10::Storage storage);

// The same, into a new npu storage over the tensor's own memory, which nobody else may hold.
void move_to_npu(c10::TensorImpl& cpu, c10::DeviceIndex device);

// Throws c10::NotImplementedError: npu does not support tensors of the kind of `tensor`.
[[noreturn]] void refuse_kind(const at::Tensor& tensor, const char* name);

// Throws it, in the name of operator `name`, if npu does not support the kind.
inline void check_kind(const at::Tensor& tensor, const char* name) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (impl.layout() != at::kStrided || impl.is_quantized()) [[unlikely]]
    refuse_kind(tensor, name);
}

}  // namespace npugraph::npu
