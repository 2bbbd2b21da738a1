// SPDX-License-Identifier: Apache-2.0
// Collectives of torch.distributed as operators, which take the process group as an object.
#pragma once

#include "torch/npu_ops/framework/definitions.h"

namespace npugraph::npu_ops {

// Makes the class of process groups known, which their schemas name. Once, ahead of the schemas.
void register_process_group_class();

void define_wrapped_collectives(Definitions& npu);

}  // namespace npugraph::npu_ops
