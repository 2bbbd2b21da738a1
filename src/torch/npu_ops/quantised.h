// SPDX-License-Identifier: Apache-2.0
// Values in narrow types, as operators that quantise their results make them.
#pragma once

#include "torch/npu_ops/checks.h"

namespace npugraph::npu_ops {

// The type that the argument `name` asks for: int8, an 8-bit float or, for int4 and quint4x2, QUInt4x2; int8 where it is None.
at::ScalarType quantised_type(const char* op, const char* name, std::optional<int64_t> code);

// The type of tensors with values of `type`: int32 for QUInt4x2, each with eight of [-8, 7], the first in the lowest bits.
at::ScalarType storage_type(at::ScalarType type);

// `exact`, rounded half to even, in the range of `type`: int8, int32, QUInt4x2 or an 8-bit float.
Tensor saturated(const Tensor& exact, at::ScalarType type);

// exact / scale + offset, or exact * scale + offset without `divide`; `offset` may be undefined.
Tensor quantised(const Tensor& exact, const Tensor& scale, const Tensor& offset, bool divide, at::ScalarType type);

struct Quantised {
  Tensor values;
  Tensor scale;  // float32, without the last dimension: values * scale are about what was quantised
};

// Each row of the last dimension by its largest absolute value; a row of zeros by 1.
Quantised quantised_rows(const Tensor& exact, at::ScalarType type);

}  // namespace npugraph::npu_ops
