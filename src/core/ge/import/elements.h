// SPDX-License-Identifier: Apache-2.0
// Numbers of a model as expressions.
#pragma once

#include <string_view>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/expr.h"

namespace npugraph::ge {

// The number of the fewest decimal digits that rounds to `value`. The model has 1e-5 as the float next to it; the
// user's program had the double 1e-5.
double decimal(float value);

// Little-endian elements of a type that is not complex, each as a constant.
std::vector<Expr> read_elements(std::string_view bytes, DType dtype);

}  // namespace npugraph::ge
