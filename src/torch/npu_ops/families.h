// SPDX-License-Identifier: Apache-2.0
// One function per family of operators, each in a file of its own name.
#pragma once

#include "torch/npu_ops/definitions.h"

namespace npugraph::npu_ops {

void define_norms(Definitions& npu);
void define_activations(Definitions& npu);

}  // namespace npugraph::npu_ops
