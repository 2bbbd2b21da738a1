// SPDX-License-Identifier: Apache-2.0
// Collectives of torch.distributed as operators, which take the process group as an object.
#pragma once

#include "torch/npu_ops/framework/definitions.h"

namespace npugraph::npu_ops {

// Registers the class of process groups, which the schemas name. Must be called once, before the schemas are defined.
void register_process_group_class();

void define_wrapped_collectives(Definitions& npu);

}  // namespace npugraph::npu_ops
