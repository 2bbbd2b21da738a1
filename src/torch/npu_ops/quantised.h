// SPDX-License-Identifier: Apache-2.0
// Values in narrow types, as operators that quantise their results make them.
#pragma once

#include "torch/npu_ops/checks.h"

namespace npugraph::npu_ops {

// The type that the argument `name` asks for: int8 or an 8-bit float; int8 where it is None.
at::ScalarType quantised_type(const char* op, const char* name, std::optional<int64_t> code);

// `exact`, rounded half to even, in the range of `type`: int8, int32 or an 8-bit float.
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
