// SPDX-License-Identifier: Apache-2.0
// Formats of npu tensors: how an NPU would arrange their memory. Here all memory stays plain, so
// a format is only a tag. It belongs to the storage: a view has the format of its base, and a
// tensor that is given other data gets their format.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "torch/npu/export.h"
#include "torch/npu/memory.h"

namespace npugraph::npu {

struct Format {
  int code;  // number in the driver
  const char* name;
  int base = code;  // the plain format that it replaces; its own code if it is plain
};

inline constexpr std::array kFormats = {
    Format{-1, "UNDEFINED"},    Format{0, "NCHW"},          Format{1, "NHWC"},
    Format{kPlainFormat, "ND"}, Format{3, "NC1HWC0", 0},    Format{4, "FRACTAL_Z", 0},
    Format{16, "HWCN"},         Format{27, "NDHWC"},        Format{29, "FRACTAL_NZ", kPlainFormat},
    Format{30, "NCDHW"},        Format{32, "NDC1HWC0", 30}, Format{33, "FRACTAL_Z_3D", 30},
    Format{35, "NC"},           Format{47, "NCL"},
};

// Whether tensors may have formats that only an NPU's kernels know; a setting of the process, off at its start.
// Thread-safe.
void allow_internal_formats(bool allowed) noexcept;
bool internal_formats_allowed() noexcept;

// Raises RuntimeError in the name of operator `op` unless `code` is one of kFormats that a tensor may have.
NPUGRAPH_EXPORT void check_format(const char* op, int64_t code);
// `code`, or its base, with a warning, while internal formats are not allowed. Raises as check_format.
NPUGRAPH_EXPORT int permitted_format(const char* op, int64_t code);

inline int format_of(const at::Tensor& npu) {
  return format_of(npu.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
}
inline void set_format(const at::Tensor& npu, int code) {
  format_of(npu.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()) = code;
}

}  // namespace npugraph::npu
