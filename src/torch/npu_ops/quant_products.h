// SPDX-License-Identifier: Apache-2.0
// What products of quantised matrices share.
#pragma once

#include "torch/npu_ops/quantisation.h"

namespace npugraph::npu_ops {

// x1 [..., m, k] @ x2 [..., k, n] of int8 values, in int32 and exact.
Tensor int8_product(const Tensor& x1, const Tensor& x2);

// The int8 values of `weight` [..., k, n], which is int8, or int32 with eight int4 values in each word along k or n.
Tensor int8_weight(const char* op, const char* name, const Tensor& weight, const c10::SymInt& k);

// A scale as operators of products take it: floating, or int64 as npu_trans_quant_param makes it.
struct Scale {
  Tensor factor;  // float32 (float64 stays)
  Tensor offset;  // undefined where the scale has none
};
Scale decoded_scale(const char* op, const char* name, const Tensor& scale);
Tensor encoded_scale(const Tensor& scale, const OptionalTensor& offset, bool to_nearest);

// (weight + offset) * scale, in float32: `scale` and `offset` are one value, [n], [1, n], or [groups, n] where each group is of
// as many rows of `weight` [..., k, n]. All may have leading dimensions.
Tensor dequantised_weight(const char* op, const Tensor& weight, const Tensor& scale, const OptionalTensor& offset);

// What follows a product `sums` [..., m, n] of integers (int32) or of floats.
struct Epilogue {
  OptionalTensor bias;            // [n] or [..., 1, n]; an int32 one is added to the sums, another one after scaling
  OptionalTensor scale;           // one, [n] or [..., 1, n]
  OptionalTensor pertoken_scale;  // [m] or [..., m]
  OptionalTensor offset;          // added to what is rounded to an integer
};
// `sums`, scaled, in `type`; saturated for int8. Sums in int32 are returned as they are, plus the bias.
Tensor finished(const char* op, const Tensor& sums, const Epilogue& epilogue, at::ScalarType type);

}  // namespace npugraph::npu_ops
