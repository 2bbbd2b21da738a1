// SPDX-License-Identifier: Apache-2.0
// One function per family of operators, each in a file of its own name.
#pragma once

#include "torch/npu_ops/framework/definitions.h"

namespace npugraph::npu_ops {

void define_causal_convolutions(Definitions& npu);
void define_delta_rule(Definitions& npu);
void define_recurrent(Definitions& npu);
void define_recurrent_gradients(Definitions& npu);
void define_recurrent_layers(Definitions& npu);

}  // namespace npugraph::npu_ops
