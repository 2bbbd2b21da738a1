// SPDX-License-Identifier: Apache-2.0
// One function per family of operators, each in a file of its own name.
#pragma once

#include "torch/npu_ops/framework/definitions.h"

namespace npugraph::npu_ops {

void define_atb_serving(Definitions& atb);
void define_mla_preprocess(Definitions& atb);
void define_mla_prolog(Definitions& npu);
void define_rope_cache(Definitions& npu);
void define_rope_quant_cache(Definitions& npu);
void define_rotary(Definitions& npu);

}  // namespace npugraph::npu_ops
