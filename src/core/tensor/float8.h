// SPDX-License-Identifier: Apache-2.0
// The 8-bit floating-point types: every value is exact as a float; floats round to nearest even, as ATen rounds them.
// Values that are too large become infinity (e5m2), the largest value (e4m3fn) or NaN (the others). e8m0fnu keeps only
// the exponent, without a sign.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace npugraph {

bool is_float8(DType dtype);
// Require is_float8(dtype).
float float8_to_float(DType dtype, uint8_t bits);
uint8_t float_to_float8(DType dtype, float x);

}  // namespace npugraph
