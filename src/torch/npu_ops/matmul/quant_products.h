// SPDX-License-Identifier: Apache-2.0
// What products of quantised matrices share.
#pragma once

#include <optional>

#include "torch/npu_ops/quantisation/microscaling.h"

namespace npugraph::npu_ops {

// x1 [..., m, k] @ x2 [..., k, n] of int8 values, in int32 and exact.
Tensor int8_product(const Tensor& x1, const Tensor& x2);

// The values of `weight` [..., k, n], whose type `code` says where it is given: int4 values, eight in each int32 along k or n, in
// int8; float4 values, two in each byte, in float32; others as they are.
Tensor read_weight_as(const char* op, const char* name, const Tensor& weight, std::optional<int64_t> code,
                      const c10::SymInt& k);

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
  OptionalTensor pertoken_scale;  // [m] or [..., m], or [..., m, 1]
  OptionalTensor offset;          // added to what is rounded to an integer
};
// `sums`, scaled, in `type`; saturated for int8. Sums in int32 are returned as they are, plus the bias.
Tensor finished(const char* op, const Tensor& sums, const Epilogue& epilogue, at::ScalarType type);

// Sizes of blocks of x1 [m, k] and x2 [k, n] that have one scale each.
struct GroupSizes {
  int64_t m = 1, n = 1, k = 1;
};
GroupSizes group_sizes_of(const char* op, at::OptionalIntArrayRef sizes);

// x1 of int8, float8 or float32 values, and x2 as read_weight_as gives it.
struct QuantOperands {
  Tensor x1, x2, scale;
  OptionalTensor pertoken_scale;
  std::optional<int64_t> scale_dtype, pertoken_scale_dtype;
  GroupSizes sizes;
};
// x1 @ x2 before or after it is scaled: what is left to do is in `epilogue`. Integers give int32, and exact sums.
Tensor scaled_product(const char* op, const QuantOperands& in, Epilogue& epilogue);

// How floats become the int8 operand of a product.
struct OperandQuant {
  OptionalTensor x_scale;   // one or one of each row; the largest value of each row decides where it is not given
  OptionalTensor x_offset;  // not allowed
  OptionalTensor smooth_scale;
  c10::string_view quant_mode;  // "pertoken", or "pertensor" with x_scale
};
Quantised quantised_operand(const char* op, const Tensor& x, const OperandQuant& how);

// int8, int32, float16, bfloat16 or float32.
at::ScalarType output_type(const char* op, std::optional<int64_t> code, at::ScalarType fallback);

}  // namespace npugraph::npu_ops
