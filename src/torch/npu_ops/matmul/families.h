// SPDX-License-Identifier: Apache-2.0
// One function per family of operators, each in a file of its own name.
#pragma once

#include "torch/npu_ops/framework/definitions.h"

namespace npugraph::npu_ops {

void define_compressed_weights(Definitions& npu);
void define_grouped_fusions(Definitions& npu);
void define_grouped_matmul(Definitions& npu);
void define_matmul(Definitions& npu);
void define_matmul_checksum(Definitions& npu);
void define_matmul_fusions(Definitions& npu);
void define_mx_dual_level(Definitions& npu);
void define_quant_fusions(Definitions& npu);
void define_quant_matmul(Definitions& npu);

}  // namespace npugraph::npu_ops
