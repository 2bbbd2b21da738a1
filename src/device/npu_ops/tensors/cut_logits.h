// SPDX-License-Identifier: Apache-2.0
// npu_top_k_top_p on tensors in memory, in time linear in the length of a row: nothing is sorted.
#pragma once

#include <optional>

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// `logits` [rows, n] with -inf for what npu_top_k_top_p drops; p and k are [rows]. Nothing if the tensors have no
// memory, if gradients are wanted, if logits contain NaN, or if a value of k is not positive.
std::optional<Tensor> cut_logits(const Tensor& logits, const OptionalTensor& p, const OptionalTensor& k);

}  // namespace npugraph::npu_ops
