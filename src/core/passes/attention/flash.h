// SPDX-License-Identifier: Apache-2.0
// The attention of PyTorch that several passes rewrite.
#pragma once

#include "ops/operators.h"

namespace npugraph::passes {

using Flash = aten::_scaled_dot_product_flash_attention_for_cpu;

}  // namespace npugraph::passes
