// SPDX-License-Identifier: Apache-2.0
// One function per family of operators, each in a file of its own name.
#pragma once

#include "torch/npu_ops/framework/definitions.h"

namespace npugraph::npu_ops {

void define_block_sparse_attention(Definitions& npu);
void define_compressed_attention(Definitions& npu);
void define_lightning_indexer(Definitions& npu);
void define_selected_attention(Definitions& npu);
void define_sparse_attention(Definitions& npu);
void define_sparse_attention_gradients(Definitions& npu);

}  // namespace npugraph::npu_ops
