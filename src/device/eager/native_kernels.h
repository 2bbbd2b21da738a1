// SPDX-License-Identifier: Apache-2.0
// Kernels of aten operators that npu brings itself, by topic. Each function registers its own at PrivateUse1.
#pragma once

#include <torch/library.h>

namespace npugraph::eager {

// Operators that make, reshape and copy tensors.
void register_factories(torch::Library& library);
// Operators for which cpu has no kernel, or one that would draw from the generator of cpu.
void register_special_kernels(torch::Library& library);
// Products, whose operands may be of several floating-point types.
void register_products(torch::Library& library);
// histc, also of integers.
void register_histograms(torch::Library& library);
// The parts of torch.nn.SyncBatchNorm.
void register_synced_batch_norm(torch::Library& library);
// Scaled dot product attention chooses the implementation that cpu would.
void register_attention_choice();

}  // namespace npugraph::eager
