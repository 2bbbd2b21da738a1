// SPDX-License-Identifier: Apache-2.0
// Kinds of tensors that npu has not: sparse, quantised, and nested ones of layout torch.strided.
#pragma once

namespace npugraph::device {

// What would make such tensors of npu, or work on them, raises NotImplementedError.
void register_refusals();

}  // namespace npugraph::device
