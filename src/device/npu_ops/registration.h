// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace npugraph::npu_ops {

// Registers the operators with torch. Later calls do nothing.
void register_operators();

// Its first part, in exchange/wrapped_collectives.cc: registers the class of process groups, which the schemas name.
void register_process_group_class();

}  // namespace npugraph::npu_ops
