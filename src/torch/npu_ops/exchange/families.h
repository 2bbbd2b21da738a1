// SPDX-License-Identifier: Apache-2.0
// One function per family of operators, each in a file of its own name.
#pragma once

#include "torch/npu_ops/framework/definitions.h"

namespace npugraph::npu_ops {

void define_communication(Definitions& npu);
void define_exchanges(Definitions& npu);
void define_quant_exchanges(Definitions& npu);

}  // namespace npugraph::npu_ops
