// SPDX-License-Identifier: Apache-2.0
// Kinds of tensors that npu does not support: sparse, quantised, and nested ones of layout torch.strided.
#pragma once

namespace npugraph::eager {

// Makes operators that would make such npu tensors, or work on them, raise NotImplementedError.
void register_refusals();

}  // namespace npugraph::eager
