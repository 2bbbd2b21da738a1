// SPDX-License-Identifier: Apache-2.0
// float4 with two levels of scales: a float32 for 512 values, and a power of two for 32.
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/matmul/quant_products.h"

namespace npugraph::npu_ops {
namespace {

constexpr int64_t kOuterBlock = 512;

// Expands scales [..., blocks] of blocks along the last dimension of `x` to one for each value.
Tensor spread_outer(const Tensor& scale, const Tensor& x) {
  return wide(scale).repeat_interleave_symint(kOuterBlock, -1).narrow_symint(-1, 0, x.sym_size(-1));
}

std::tuple<Tensor, Tensor, Tensor> dynamic_dual_level_mx_quant(const Tensor& input, const OptionalTensor& smooth_scale,
                                                               c10::string_view round_mode) {
  constexpr const char* kOp = "npu_dynamic_dual_level_mx_quant";
  check_floating(kOp, "input", input);
  check_dims(kOp, "input", input, 1, 7);
  check_options(kOp, {.round_mode = round_mode});
  const ElementType type = element_type(kOp, "dst_type", kFloat4Code);
  const Tensor exact = smooth_scale ? wide(input) * wide(*smooth_scale) : wide(input);
  const c10::SymInt blocks = (input.sym_size(-1) + kOuterBlock - 1) / kOuterBlock;
  const Tensor whole = zero_padded(exact.abs(), exact.dim() - 1, blocks * kOuterBlock);
  const Tensor outer = whole.unflatten_symint(-1, {blocks, kOuterBlock}).amax(-1) / type.largest;
  const Tensor divisor = outer.masked_fill(outer == 0, 1);
  const Blocks inner = to_blocks(kOp, exact / spread_outer(divisor, exact), -1, type);
  return {inner.values, outer, inner.scale};
}

// The values of float4 `bytes` [rows, k / 2] times both their scales.
Tensor exact_rows(const char* op, const char* name, const Tensor& bytes, const Tensor& outer, const Tensor& inner) {
  const Tensor values = read_as(op, name, bytes, kFloat4Code);
  const c10::SymInt rows = values.sym_size(0), k = values.sym_size(1);
  const bool fits = outer.dim() == 2 && outer.sym_size(0) == rows &&
                    outer.sym_size(1) == (k + kOuterBlock - 1) / kOuterBlock && inner.dim() == 3 &&
                    inner.sym_size(0) == rows && inner.sym_size(1) == (k + 63) / 64 && inner.sym_size(2) == 2;
  TORCH_CHECK(fits, op, ": the scales of ", name, " have shapes ", outer.sym_sizes(), " and ", inner.sym_sizes(),
              ", allowed are (", rows, ", ", (k + kOuterBlock - 1) / kOuterBlock, ") and (", rows, ", ", (k + 63) / 64,
              ", 2)");
  return values * scale_of_values(inner, -1, k) * spread_outer(outer, values);
}

Tensor dual_level_quant_matmul(const Tensor& x1, const Tensor& x2, const Tensor& x1_level0_scale,
                               const Tensor& x2_level0_scale, const Tensor& x1_level1_scale,
                               const Tensor& x2_level1_scale, const OptionalTensor& bias, int64_t output_dtype) {
  constexpr const char* kOp = "npu_dual_level_quant_matmul";
  check_dims(kOp, "x1", x1, 2, 2);
  check_dims(kOp, "x2", x2, 2, 2);
  const at::ScalarType type = type_of_code(kOp, "output_dtype", output_dtype, at::kBFloat16);
  TORCH_CHECK(type == at::kHalf || type == at::kBFloat16 || type == at::kFloat, kOp, ": output_dtype is ", type,
              ", allowed are Half, BFloat16 and Float");
  const bool by_rows = x2.sym_size(1) == x1.sym_size(1);
  TORCH_CHECK(by_rows || x2.sym_size(0) == x1.sym_size(1), kOp, ": x2 has shape ", x2.sym_sizes(), ", allowed are (n, ",
              x1.sym_size(1), ") and (", x1.sym_size(1), ", n) where x1 has shape ", x1.sym_sizes());
  const c10::SymInt n = x2.sym_size(by_rows ? 0 : 1);
  const auto of_rows = [&](const Tensor& scale) {
    return scale.dim() < 2 || scale.sym_size(0) == n ? scale : scale.transpose(0, 1);
  };
  const Tensor left = exact_rows(kOp, "x1", x1, x1_level0_scale, x1_level1_scale);
  const Tensor right = exact_rows(kOp, "x2", by_rows ? x2 : x2.t(), of_rows(x2_level0_scale), of_rows(x2_level1_scale));
  const Tensor product = at::matmul(left, right.t());
  return (bias ? product + wide(*bias) : product).to(type);
}

}  // namespace

void define_mx_dual_level(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_dynamic_dual_level_mx_quant(Tensor input, *, Tensor? smooth_scale=None, str "
                "round_mode=\"rint\") -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&dynamic_dual_level_mx_quant),
      .definition = "Dynamic quantisation to float4_e2m1 with two levels of scales along the last dimension: input * "
                    "smooth_scale is divided by max(abs(block)) / 6 of each block of 512 values, where 6 is the "
                    "largest float4 value, and then quantised by npu_dynamic_mx_quant. How the device finds the outer "
                    "scale is not published; this one uses all values of float4. input is [..., K] and smooth_scale "
                    "[K]; round_mode must be rint. Results: the values, two in a byte, [..., K / 2]; the outer scales "
                    "in float32, [..., ceil(K / 512)]; and the scales of npu_dynamic_mx_quant, [..., ceil(K / 64), "
                    "2].",
  });
  library.add({
      .schema =
          "npu::npu_dual_level_quant_matmul(Tensor x1, Tensor x2, Tensor x1_level0_scale, Tensor x2_level0_scale, "
          "Tensor x1_level1_scale, Tensor x2_level1_scale, *, Tensor? bias=None, int output_dtype=15) -> Tensor",
      .kernel = parts(&dual_level_quant_matmul),
      .definition = "Product x1 @ x2.T + bias of float4 matrices quantised by npu_dynamic_dual_level_mx_quant. x1 is "
                    "[M, K / 2] and x2 [N, K / 2] in bytes, level0 scales are the outer scales of that operator, and "
                    "level1 scales the inner ones. x2 and its scales may also have their first two dimensions "
                    "exchanged, x2 only if N is not K / 2. bias is [N]. The result is [M, N] in output_dtype: "
                    "bfloat16 (default), float16 or float32.",
  });
}

}  // namespace npugraph::npu_ops
