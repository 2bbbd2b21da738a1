// SPDX-License-Identifier: Apache-2.0
// Operators that write all elements of the arguments that they write, so that a graph may compute the new values of these
// arguments instead of a call.
#pragma once

#include <string>

#include "torch/npu/export.h"

namespace npugraph::npu {

// `op`: "atb::_npu_rotary_embedding". To be called before the operator is called.
NPUGRAPH_EXPORT void declare_rewrites(const std::string& op);
bool rewrites_arguments(const std::string& op);

}  // namespace npugraph::npu
