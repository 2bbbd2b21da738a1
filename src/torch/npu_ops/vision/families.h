// SPDX-License-Identifier: Apache-2.0
// One function per family of operators, each in a file of its own name.
#pragma once

#include "torch/npu_ops/framework/definitions.h"

namespace npugraph::npu_ops {

void define_assignments(Definitions& npu);
void define_boxes(Definitions& npu);
void define_detection(Definitions& npu);
void define_region_pooling(Definitions& npu);
void define_rotated_boxes(Definitions& npu);

}  // namespace npugraph::npu_ops
