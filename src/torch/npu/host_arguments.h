// SPDX-License-Identifier: Apache-2.0
// Arguments that an operator by its definition takes from the host: lengths and
// indices, which may be cpu tensors beside npu tensors.
#pragma once

#include <string>

#include "torch/npu/export.h"

namespace npugraph::npu {

// `op` without its overload, "npu::npu_fusion_attention". To be called before the operator is called.
NPUGRAPH_EXPORT void declare_host_argument(const std::string& op, const std::string& argument);
NPUGRAPH_EXPORT bool may_be_on_host(const std::string& op, const std::string& argument);

}  // namespace npugraph::npu
