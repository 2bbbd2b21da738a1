// SPDX-License-Identifier: Apache-2.0
// Products of matrices, one or both of which are quantised.
#include "device/npu_ops/families.h"
#include "device/npu_ops/matmul/quant_products.h"

namespace npugraph::npu_ops {
namespace {

Tensor trans_quant_param(const Tensor& scale, const OptionalTensor& offset, OptionalInt round_mode) {
  constexpr const char* kOp = "npu_trans_quant_param";
  check_type(kOp, "scale", scale, {at::kFloat});
  const int64_t mode = round_mode.value_or(0);
  TORCH_CHECK(mode == 0 || mode == 1, kOp, ": round_mode is ", mode, ", allowed are 0 (truncate) and 1 (to nearest)");
  return encoded_scale(scale, offset, mode == 1);
}

Tensor quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& scale, const OptionalTensor& offset,
                    const OptionalTensor& pertoken_scale, const OptionalTensor& bias, OptionalInt output_dtype,
                    OptionalInt x1_dtype, OptionalInt x2_dtype, OptionalInt pertoken_scale_dtype,
                    OptionalInt scale_dtype, at::OptionalIntArrayRef group_sizes, const OptionalTensor& y_scale) {
  constexpr const char* kOp = "npu_quant_matmul";
  check_dims(kOp, "x1", x1, 2, 6);
  const at::ScalarType type = output_type(kOp, output_dtype, at::kChar);
  const Tensor left = with_int4_unpacked(read_as(kOp, "x1", x1, x1_dtype));
  const Tensor right = read_weight_as(kOp, "x2", x2, x2_dtype, left.sym_size(-1));
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
                                int64_t antiquant_group_size, int64_t, OptionalInt weight_dtype) {
  constexpr const char* kOp = "npu_weight_quant_batchmatmul";
  check_floating(kOp, "x", x);
  check_dims(kOp, "x", x, 2, 6);
  const Tensor plain = read_weight_as(kOp, "weight", weight, weight_dtype, x.sym_size(-1));
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

void define_quant_matmul(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_trans_quant_param(Tensor scale, Tensor? offset=None, int? round_mode=0) -> Tensor",
      .kernel = parts(&trans_quant_param),
      .definition = "Encodes float32 scales and offsets of dequantisation as int64, as npu_quant_matmul takes them. "
                    "Bits 0 to 31 are those of scale without the low 13 bits of its mantissa, which round_mode 0 "
                    "truncates and 1 rounds to nearest. Bits 37 to 45 are round(offset), a saturated signed integer, "
                    "and bit 46 is set. The result has the shape of scale.",
  });
  library.add({
      .schema = "npu::npu_quant_matmul(Tensor x1, Tensor x2, Tensor scale, *, Tensor? offset=None, Tensor? "
                "pertoken_scale=None, Tensor? bias=None, int? output_dtype=None, int? x1_dtype=None, int? "
                "x2_dtype=None, int? pertoken_scale_dtype=None, int? scale_dtype=None, int[]? group_sizes=None, "
                "Tensor? y_scale=None) -> Tensor",
      .kernel = parts(&quant_matmul),
      .definition = "Product of quantised matrices, dequantised: sums = x1 @ x2 and y = sums * scale * pertoken_scale "
                    "+ bias, where an int32 bias is added to the sums instead. x1 is [..., M, K] and x2 [..., K, N]. "
                    "They have int8 or int4 values (eight packed in each int32), whose sums are exact in int32 unless "
                    "scale has groups, or float8 values; x1_dtype and x2_dtype say what bytes hold, such as hifloat8 "
                    "or float4. scale is one value, [N], or [groups, N] with a row for each K / groups rows of x2, "
                    "and floating or encoded by npu_trans_quant_param; pertoken_scale is [M]. Both may also be scales "
                    "of MX blocks (npu_dynamic_mx_quant), or of blocks with the sizes group_sizes along M, N and K. "
                    "With y_scale, y is multiplied by it and offset is ignored. The result is in output_dtype: "
                    "round(y + offset), saturated, for int8, the default; the sums without scales for int32; y for "
                    "floating types.",
  });
  library.add({
      .schema = "npu::npu_weight_quant_batchmatmul(Tensor x, Tensor weight, Tensor antiquant_scale, Tensor? "
                "antiquant_offset=None, Tensor? quant_scale=None, Tensor? quant_offset=None, Tensor? bias=None, int "
                "antiquant_group_size=0, int inner_precise=0, int? weight_dtype=None) -> Tensor",
      .kernel = parts(&weight_quant_batchmatmul),
      .definition = "Product with a quantised weight that is dequantised first: y = x @ ((weight + antiquant_offset) "
                    "* antiquant_scale) + bias. x is [..., M, K] in a floating type. weight is [..., K, N] with int8 "
                    "values, int4 values (eight packed in each int32 along K or N), or values of the type "
                    "weight_dtype. antiquant_scale and antiquant_offset are one value, [N], or [groups, N] with a row "
                    "for each antiquant_group_size rows of weight. inner_precise is ignored. The result is y in the "
                    "type of x, or with quant_scale round(y * quant_scale + quant_offset), saturated, in int8.",
  });
}

}  // namespace npugraph::npu_ops
