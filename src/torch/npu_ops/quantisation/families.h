// SPDX-License-Identifier: Apache-2.0
// One function per family of operators, each in a file of its own name.
#pragma once

#include "torch/npu_ops/framework/definitions.h"

namespace npugraph::npu_ops {

void define_calibration(Definitions& npu);
void define_mx_gates(Definitions& npu);
void define_mx_groups(Definitions& npu);
void define_mx_quant(Definitions& npu);
void define_quantise(Definitions& npu);

}  // namespace npugraph::npu_ops
