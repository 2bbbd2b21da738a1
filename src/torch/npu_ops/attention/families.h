// SPDX-License-Identifier: Apache-2.0
// One function per family of operators, each in a file of its own name.
#pragma once

#include "torch/npu_ops/framework/definitions.h"

namespace npugraph::npu_ops {

void define_attention_softmax(Definitions& npu);
void define_floyd_attention(Definitions& npu);
void define_fused_infer_attention(Definitions& npu);
void define_fusion_attention(Definitions& npu);
void define_multi_head_attention(Definitions& npu);
void define_paged_attention(Definitions& atb);
void define_paged_cache(Definitions& npu, Definitions& atb);
void define_quant_fusion_attention(Definitions& npu);

}  // namespace npugraph::npu_ops
