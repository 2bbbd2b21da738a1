// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding (Su et al., RoFormer, 2021) of the last dimension.
#pragma once

#include "torch/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// Which places of the last dimension turn together: i and i + n/2; 2i and 2i + 1; or kHalf in each half.
enum class Rotation { kHalf, kPairs, kQuarter };

// Of "half", "interleave" or "quarter".
Rotation rotation_of(const char* op, c10::string_view mode);

// `x` turned by a right angle.
Tensor turned(const Tensor& x, Rotation rotation);

// wide(x) * cos + turned(x) * sin.
Tensor rotated(const Tensor& x, const Tensor& cos, const Tensor& sin, Rotation rotation);

// The even places of the last dimension, and then the odd ones.
Tensor evens_first(const Tensor& x);

// Rotates the first places of each head of `x`, whose last dimension is heads of `head_size`: as many as twice those of
// `cos` and `sin`, which have an angle for each pair and the other dimensions of x. In the type and shape of x.
Tensor rotated_heads(const Tensor& x, int64_t head_size, const Tensor& cos, const Tensor& sin, Rotation rotation);

}  // namespace npugraph::npu_ops
