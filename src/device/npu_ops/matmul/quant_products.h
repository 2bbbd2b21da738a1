// SPDX-License-Identifier: Apache-2.0
// Shared by products of quantised matrices.
#pragma once

#include <optional>

#include "device/npu_ops/quantisation/microscaling.h"

namespace npugraph::npu_ops {

// x1 [..., m, k] @ x2 [..., k, n] of int8 values, in int32 and exact.
Tensor int8_product(const Tensor& x1, const Tensor& x2);

// The values of `weight` [..., k, n], whose type is `code` or else its own: int4 values, eight in each int32 along k or
// n, as int8; float4 values, two in each byte, as float32; others as they are.
Tensor read_weight_as(const char* op, const char* name, const Tensor& weight, std::optional<int64_t> code,
                      const c10::SymInt& k);

// A scale as products take it: floating, or int64 in the layout of npu_trans_quant_param.
struct Scale {
  Tensor factor;  // float32 (float64 stays)
  Tensor offset;  // undefined where the scale has none
};
Scale decoded_scale(const char* op, const char* name, const Tensor& scale);
Tensor encoded_scale(const Tensor& scale, const OptionalTensor& offset, bool to_nearest);

// (weight + offset) * scale, in float32. `scale` and `offset` are one value, [n], [1, n], or [groups, n], where all
// groups have equally many rows of `weight` [..., k, n]. All may have leading dimensions.
Tensor dequantised_weight(const char* op, const Tensor& weight, const Tensor& scale, const OptionalTensor& offset);

// The operations after a product `sums` [..., m, n] of integers (int32) or floats.
struct Epilogue {
  // [n] or [..., 1, n], also of more dimensions than the sums. An int32 bias is added to the sums, another one after
  // scaling.
  OptionalTensor bias;
  OptionalTensor scale;           // one, [n] or [..., 1, n]
  OptionalTensor pertoken_scale;  // [m] or [..., m], or [..., m, 1]
  OptionalTensor offset;          // added before rounding to an integer
};
// `exact` in a floating type or int32; saturated for float8.
Tensor rounded_to(const char* op, const Tensor& exact, at::ScalarType type);
// `sums`, scaled, in `type`; saturated for int8 and float8. For int32, the sums are not scaled, and only an int32 bias
// is added.
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
// x1 @ x2, scaled or not: `epilogue` gets the scales that are still to be applied. int8 operands give exact sums in
// int32, unless the scale of x2 has groups.
Tensor scaled_product(const char* op, const QuantOperands& in, Epilogue& epilogue);

// How floats are quantised to the int8 operand of a product.
struct OperandQuant {
  OptionalTensor x_scale;   // one value, or one for each row; by default from the largest value of each row
  OptionalTensor x_offset;  // must not be given
  OptionalTensor smooth_scale;
  c10::string_view quant_mode;  // "pertoken", or "pertensor" with x_scale
};
Quantised quantised_operand(const char* op, const Tensor& x, const OperandQuant& how);

// The type of `code`: int8, int32, float16, bfloat16, float32 or float8.
at::ScalarType output_type(const char* op, std::optional<int64_t> code, at::ScalarType fallback);

}  // namespace npugraph::npu_ops
