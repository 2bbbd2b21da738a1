// SPDX-License-Identifier: Apache-2.0
// Products of matrices of which one or both are quantised.
#include <algorithm>

#include "torch/npu_ops/families.h"
#include "torch/npu_ops/microscaling.h"
#include "torch/npu_ops/quant_products.h"

namespace npugraph::npu_ops {
namespace {

using Code = std::optional<int64_t>;

at::ScalarType output_type(const char* op, Code code, at::ScalarType fallback) {
  const at::ScalarType type = type_of_code(op, "output_dtype", code, fallback);
  const bool allowed =
      type == at::kChar || type == at::kInt || type == at::kHalf || type == at::kBFloat16 || type == at::kFloat;
  TORCH_CHECK(allowed, op, ": output_dtype is ", type, ", allowed are int8, int32, float16, bfloat16 and float32");
  return type;
}

Tensor trans_quant_param(const Tensor& scale, const OptionalTensor& offset, Code round_mode) {
  constexpr const char* kOp = "npu_trans_quant_param";
  check_type(kOp, "scale", scale, {at::kFloat});
  const int64_t mode = round_mode.value_or(0);
  TORCH_CHECK(mode == 0 || mode == 1, kOp, ": round_mode is ", mode, ", allowed are 0 (truncate) and 1 (to nearest)");
  return encoded_scale(scale, offset, mode == 1);
}

// Sizes of blocks of x1 [m, k] and x2 [k, n] that have one scale each.
struct GroupSizes {
  int64_t m = 1, n = 1, k = 1;
};

GroupSizes group_sizes_of(const char* op, at::OptionalIntArrayRef sizes) {
  if (!sizes || sizes->empty()) return {};
  TORCH_CHECK(sizes->size() == 3, op, ": group_sizes is ", *sizes, ", allowed are three sizes, along m, n and k");
  return {std::max<int64_t>((*sizes)[0], 1), std::max<int64_t>((*sizes)[1], 1), std::max<int64_t>((*sizes)[2], 1)};
}

// A scale of blocks of `rows` by `columns` values of `x` as one of each value.
Tensor spread(const Tensor& scale, const Tensor& x, int64_t rows, int64_t columns) {
  const Tensor by_row = wide(scale).repeat_interleave_symint(rows, -2).narrow_symint(-2, 0, x.sym_size(-2));
  return by_row.repeat_interleave_symint(columns, -1).narrow_symint(-1, 0, x.sym_size(-1));
}

// A float8 or float4 operand times its scale, where that varies along the dimension to sum over; float32.
struct Scaled {
  Tensor exact;
  bool done = false;  // `scale` is in `exact`
};

Scaled scaled_left(const Tensor& x, const OptionalTensor& scale, Code scale_dtype, const GroupSizes& sizes) {
  const Tensor exact = x.to(at::kFloat);
  if (!scale) return {exact, true};
  if (is_block_scale(*scale, scale_dtype)) return {exact * scale_of_values(*scale, -1, exact.sym_size(-1)), true};
  if (scale->dim() < 2 || scale->dim() != x.dim()) return {exact};
  return {exact * spread(*scale, exact, sizes.m, sizes.k), true};
}

Scaled scaled_right(const char* op, const Tensor& x, const Tensor& scale, Code scale_dtype, const GroupSizes& sizes) {
  const Tensor exact = x.to(at::kFloat);
  if (is_block_scale(scale, scale_dtype)) return {exact * scale_of_values(scale, -2, exact.sym_size(-2)), true};
  if (scale.dim() < 2 || scale.sym_size(-2) == 1) return {exact};
  if (sizes.n > 1) return {exact * spread(scale, exact, sizes.k, sizes.n), true};
  return {dequantised_weight(op, exact, decoded_scale(op, "scale", scale).factor, {}), true};
}

struct QuantOperands {
  Tensor x1, x2, scale;
  OptionalTensor pertoken_scale;
  Code scale_dtype, pertoken_scale_dtype;
  GroupSizes sizes;
};

// x1 @ x2 before or after scaling: what is left to do is in `epilogue`.
Tensor scaled_product(const char* op, const QuantOperands& in, Epilogue& epilogue) {
  const bool is_int8 = in.x1.scalar_type() == at::kChar;
  const Tensor x2 = in.x2.scalar_type() == at::kChar || in.x2.scalar_type() == at::kInt
                        ? int8_weight(op, "x2", in.x2, in.x1.sym_size(-1))
                        : in.x2;
  const bool has_groups = in.scale.dim() >= 2 && in.scale.sym_size(-2) != 1;
  epilogue.scale = in.scale;
  epilogue.pertoken_scale = in.pertoken_scale;
  if (is_int8 && x2.scalar_type() == at::kChar && !has_groups) return int8_product(in.x1, x2);
  const Scaled left = scaled_left(in.x1, in.pertoken_scale, in.pertoken_scale_dtype, in.sizes);
  const Scaled right = scaled_right(op, x2, in.scale, in.scale_dtype, in.sizes);
  if (left.done) epilogue.pertoken_scale.reset();
  if (right.done) epilogue.scale.reset();
  return at::matmul(left.exact, right.exact);
}

Tensor quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& scale, const OptionalTensor& offset,
                    const OptionalTensor& pertoken_scale, const OptionalTensor& bias, Code output_dtype, Code x1_dtype,
                    Code x2_dtype, Code pertoken_scale_dtype, Code scale_dtype, at::OptionalIntArrayRef group_sizes,
                    const OptionalTensor& y_scale) {
  constexpr const char* kOp = "npu_quant_matmul";
  check_dims(kOp, "x1", x1, 2, 6);
  const at::ScalarType type = output_type(kOp, output_dtype, at::kChar);
  const Tensor left = with_int4_unpacked(read_as(kOp, "x1_dtype", x1, x1_dtype));
  const Tensor right = read_as(kOp, "x2_dtype", x2, x2_dtype);
  check_type(kOp, "x1", left, {at::kChar, at::kFloat8_e4m3fn, at::kFloat8_e5m2, at::kFloat});
  Epilogue epilogue{.bias = bias, .offset = offset};
  const QuantOperands operands{
      left, right, scale, pertoken_scale, scale_dtype, pertoken_scale_dtype, group_sizes_of(kOp, group_sizes)};
  const Tensor sums = scaled_product(kOp, operands, epilogue);
  if (!y_scale) return finished(kOp, sums, epilogue, type);
  const Tensor exact = finished(kOp, sums, epilogue, at::kFloat);
  return finished(kOp, exact, {.scale = y_scale}, type);
}

Tensor weight_quant_batchmatmul(const Tensor& x, const Tensor& weight, const Tensor& antiquant_scale,
                                const OptionalTensor& antiquant_offset, const OptionalTensor& quant_scale,
                                const OptionalTensor& quant_offset, const OptionalTensor& bias,
                                int64_t antiquant_group_size, int64_t, Code weight_dtype) {
  constexpr const char* kOp = "npu_weight_quant_batchmatmul";
  check_floating(kOp, "x", x);
  check_dims(kOp, "x", x, 2, 6);
  const Tensor values = read_as(kOp, "weight_dtype", weight, weight_dtype);
  const bool is_integer = at::isIntegralType(values.scalar_type(), /*includeBool=*/false);
  const Tensor plain = is_integer ? int8_weight(kOp, "weight", values, x.sym_size(-1)) : values;
  if (antiquant_group_size > 0) {
    const c10::SymInt groups = (x.sym_size(-1) + antiquant_group_size - 1) / antiquant_group_size;
    TORCH_CHECK(antiquant_scale.dim() >= 2 && antiquant_scale.sym_size(-2) == groups, kOp,
                ": antiquant_scale has shape ", antiquant_scale.sym_sizes(), ", allowed is [", groups,
                ", n] for groups of ", antiquant_group_size);
  }
  const Tensor exact = dequantised_weight(kOp, plain, antiquant_scale, antiquant_offset);
  const at::ScalarType type = quant_scale ? at::kChar : x.scalar_type();
  const Tensor product = at::matmul(wide(x), exact);
  const Tensor sums = bias ? product + wide(*bias) : product;
  return finished(kOp, sums, {{}, quant_scale, {}, quant_offset}, type);
}

}  // namespace

void define_quant_matmul(Definitions& npu) {
  npu.composed(
      "npu_trans_quant_param", &trans_quant_param,
      "int64: the float32's bits, less the low 13 of its mantissa; round(offset) of 9 bits from bit 37 on; bit 46 "
      "set. round_mode 1 rounds the mantissa to nearest");
  npu.composed(
      "npu_quant_matmul", &quant_matmul,
      "sums = x1 @ x2 (+ an int32 bias), exact in int32; y = sums * scale * pertoken_scale (+ a floating bias); "
      "int8: round(y + offset), saturated; int32: the sums. int32 operands hold int4 values; a scale [groups, n] "
      "is one per group of rows of x2");
  npu.composed(
      "npu_weight_quant_batchmatmul", &weight_quant_batchmatmul,
      "x @ ((weight + antiquant_offset) * antiquant_scale) + bias, the scale one, per column, or per group of rows "
      "and column; with quant_scale: round(y * quant_scale + quant_offset), int8");
}

}  // namespace npugraph::npu_ops
