// SPDX-License-Identifier: Apache-2.0
// One function per family of operators, each in a file of its own name.
#pragma once

#include "torch/npu_ops/framework/definitions.h"

namespace npugraph::npu_ops {

void define_atb_gating(Definitions& atb);
void define_attention_workers(Definitions& npu);
void define_ffn_workers(Definitions& npu);
void define_moe_distribute(Definitions& npu);
void define_moe_gating(Definitions& npu);
void define_moe_permute(Definitions& npu);
void define_moe_results(Definitions& npu);
void define_moe_routing(Definitions& npu);
void define_moe_setup(Definitions& npu);

}  // namespace npugraph::npu_ops
