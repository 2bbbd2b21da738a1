// SPDX-License-Identifier: Apache-2.0
// Writing of keys into caches, for operators that compute keys.
#pragma once

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// Writes `tokens`, (batch, length, heads, dim), into `cache` in one of Ascend's modes:
// - Norm: cache is (batch, heads, places, dim), index the place of each token in its sequence;
// - PA, PA_BNSD, PA_BSND: cache is (pages, places, heads, dim), index the slot of each token;
// - PA_NZ: the same, but its memory has the layout NZ;
// - PA_BLK_*: index is the slot of the first token in each page of a sequence.
// Tokens with a negative index are skipped.
void put_in_cache(const char* op, const Tensor& cache, const Tensor& tokens, const Tensor& index,
                  c10::string_view mode);

// `exact` in the type of `cache`, quantised if that is int8 and `scale` is given.
Tensor for_cache(const char* op, const Tensor& exact, const Tensor& cache, const OptionalTensor& scale,
                 const OptionalTensor& offset, bool divide);

}  // namespace npugraph::npu_ops
