// SPDX-License-Identifier: Apache-2.0
// One function per family of operators, each in a file of its own name.
#pragma once

#include "torch/npu_ops/framework/definitions.h"

namespace npugraph::npu_ops {

void define_float_status(Definitions& npu);
void define_gradients(Definitions& npu);
void define_losses(Definitions& npu);
void define_optimisers(Definitions& npu);
void define_silent_checks(Definitions& npu);
void define_vocabulary_losses(Definitions& npu);

}  // namespace npugraph::npu_ops
