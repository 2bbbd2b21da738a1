// SPDX-License-Identifier: Apache-2.0
// Collectives of torch.distributed as operators, which take the process group as an object.
#pragma once

namespace npugraph::npu_ops {

// Registers the class of process groups, which the schemas name. Must be called once, before the schemas are defined.
void register_process_group_class();

}  // namespace npugraph::npu_ops
