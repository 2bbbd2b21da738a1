// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding (Su et al., RoFormer, 2021) of the last dimension.
#pragma once

#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// Which elements of the last dimension are rotated together: i and i + n/2; 2i and 2i + 1; or as
// kHalf within each half.
enum class Rotation { kHalf, kPairs, kQuarter };

// The rotation with the name "half", "interleave" or "quarter".
Rotation rotation_of(const char* op, c10::string_view mode);

// `x` turned by a right angle.
Tensor turned(const Tensor& x, Rotation rotation);

// wide(x) * cos + turned(x) * sin.
Tensor rotated(const Tensor& x, const Tensor& cos, const Tensor& sin, Rotation rotation);

// The even elements of the last dimension, then the odd ones.
Tensor evens_first(const Tensor& x);

// Rotates the first elements of each head of `x`, whose last dimension consists of heads of `head_size`. `cos` and
// `sin` have one angle for each pair, so that twice their last dimension is rotated; their other dimensions are those
// of x. The result has the type and shape of x.
Tensor rotated_heads(const Tensor& x, int64_t head_size, const Tensor& cos, const Tensor& sin, Rotation rotation);

}  // namespace npugraph::npu_ops
