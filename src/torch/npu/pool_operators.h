// SPDX-License-Identifier: Apache-2.0
// Operators whose kernels compute in the calling thread and the threads of the pool (runtime/threads), and not in loops of
// torch.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "torch/npu/export.h"

namespace npugraph::npu {

// By their names in the core: "npu.npu_fused_infer_attention_score". All of their overloads are declared. To be called
// before the operators are called.
NPUGRAPH_EXPORT void declare_pool_operators(std::initializer_list<std::string> names);
// `name`: of an overload, "npu.npu_fused_infer_attention_score.out".
bool is_pool_operator(std::string_view name);

}  // namespace npugraph::npu
