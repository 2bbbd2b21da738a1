// SPDX-License-Identifier: Apache-2.0
// One function per family of operators, each in a file of its own name.
#pragma once

#include "torch/npu_ops/framework/definitions.h"

namespace npugraph::npu_ops {

void define_activations(Definitions& npu);
void define_convolutions(Definitions& npu);
void define_deformable_convolutions(Definitions& npu);
void define_dropout(Definitions& npu);
void define_hyper_connections(Definitions& npu);
void define_quant_activations(Definitions& npu);

}  // namespace npugraph::npu_ops
