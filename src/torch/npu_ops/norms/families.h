// SPDX-License-Identifier: Apache-2.0
// One function per family of operators, each in a file of its own name.
#pragma once

#include "torch/npu_ops/framework/definitions.h"

namespace npugraph::npu_ops {

void define_layer_norms(Definitions& npu);
void define_norms(Definitions& npu);
void define_quant_norms(Definitions& npu);

}  // namespace npugraph::npu_ops
