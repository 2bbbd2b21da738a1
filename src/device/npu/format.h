// SPDX-License-Identifier: Apache-2.0
// Formats of npu tensors. A format belongs to the storage: a view has the format of its base, and a tensor that is
// given other data gets their format.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "device/npu/memory.h"
#include "tensor/format.h"

namespace npugraph::npu {

// Whether tensors may have formats that only an NPU's kernels know; a setting of the process, off at its start.
// Thread-safe.
void allow_internal_formats(bool allowed) noexcept;
bool internal_formats_allowed() noexcept;

// Raises RuntimeError in the name of operator `op` unless `code` is one of kFormats that a tensor may have.
void check_format(const char* op, int64_t code);
// `code`, or its base, with a warning, while internal formats are not allowed. Raises as check_format.
int permitted_format(const char* op, int64_t code);

inline int format_of(const at::Tensor& npu) {
  return format_of(npu.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
}
inline void set_format(const at::Tensor& npu, int code) {
  format_of(npu.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()) = code;
}

}  // namespace npugraph::npu
