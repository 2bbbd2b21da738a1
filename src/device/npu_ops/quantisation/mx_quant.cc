// SPDX-License-Identifier: Apache-2.0
// Quantisation in blocks of values with one scale each: a power of two (OCP Microscaling Formats
// specification, v1.0) or a float.
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/parts/parts.h"
#include "device/npu_ops/quantisation/microscaling.h"

namespace npugraph::npu_ops {
namespace {

std::tuple<Tensor, Tensor> dynamic_mx_quant(const Tensor& input, int64_t axis, c10::string_view round_mode,
                                            int64_t dst_type, int64_t block_size, OptionalInt scale_alg,
                                            double dst_type_max, double max_low_bound) {
  constexpr const char* kOp = "npu_dynamic_mx_quant";
  check_floating(kOp, "input", input);
  check_options(kOp, {round_mode, scale_alg.value_or(0), block_size, dst_type_max, max_low_bound});
  const Blocks out = to_blocks(kOp, input, axis, element_type(kOp, "dst_type", dst_type), scale_alg.value_or(0));
  return {out.values, out.scale};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> dynamic_mx_quant_with_dual_axis(const Tensor& input,
                                                                           c10::string_view round_mode,
                                                                           int64_t dst_type, int64_t scale_alg,
                                                                           std::optional<double> dst_type_max) {
  constexpr const char* kOp = "npu_dynamic_mx_quant_with_dual_axis";
  check_floating(kOp, "input", input);
  check_dims(kOp, "input", input, 2, 7);
  check_options(kOp, {.round_mode = round_mode, .scale_alg = scale_alg, .dst_type_max = dst_type_max.value_or(0)});
  const ElementType type = element_type(kOp, "dst_type", dst_type);
  const Blocks last = to_blocks(kOp, input, -1, type, scale_alg), before = to_blocks(kOp, input, -2, type, scale_alg);
  return {last.values, last.scale, before.values, before.scale};
}

Tensor anti_mx_quant(const Tensor& x, const Tensor& mxscale, OptionalInt axis, OptionalInt dst_type,
                     OptionalInt src_type) {
  constexpr const char* kOp = "npu_anti_mx_quant";
  const at::ScalarType type = type_of_code(kOp, "dst_type", dst_type, at::kBFloat16);
  TORCH_CHECK(type == at::kHalf || type == at::kBFloat16 || type == at::kFloat, kOp, ": dst_type is ", type,
              ", allowed are Half, BFloat16 and Float");
  const OptionalInt source = at::isFloatingType(x.scalar_type()) ? std::nullopt : OptionalInt(src_type.value_or(292));
  const Tensor values = read_as(kOp, "x", x, source).to(at::kFloat);
  const int64_t dim = at::maybe_wrap_dim(axis.value_or(-1), values.dim());
  TORCH_CHECK(mxscale.dim() == values.dim() + 1, kOp, ": mxscale has ", mxscale.dim(), " dimensions, allowed is ",
              values.dim() + 1, ", one more than x");
  return (values * scale_of_values(mxscale, dim, values.sym_size(dim))).to(type);
}

std::tuple<Tensor, Tensor> swiglu_mx_quant(const Tensor& x, const OptionalTensor& group_index, int64_t activate_dim,
                                           bool activate_left, int64_t swiglu_mode, double clamp_limit,
                                           double glu_alpha, double glu_bias, int64_t group_mode, int64_t axis,
                                           int64_t dst_type, c10::string_view round_mode, int64_t scale_alg,
                                           double max_dtype_value) {
  constexpr const char* kOp = "npu_swiglu_mx_quant";
  check_floating(kOp, "x", x);
  check_options(kOp, {.round_mode = round_mode, .scale_alg = scale_alg, .dst_type_max = max_dtype_value});
  TORCH_CHECK(!group_index && group_mode == 0, kOp, ": group_mode is ", group_mode,
              ", allowed are 0 and a group_index of None");
  const Gate gate{swiglu_mode, activate_left, clamp_limit, glu_alpha, glu_bias};
  const Tensor out = gated(kOp, wide(x), activate_dim, gate);
  const Blocks blocks = to_blocks(kOp, out, axis, element_type(kOp, "dst_type", dst_type), scale_alg);
  return {blocks.values, blocks.scale};
}

std::tuple<Tensor, Tensor> dynamic_block_quant(const Tensor& x, double min_scale, c10::string_view round_mode,
                                               int64_t dst_type, int64_t row_block_size, int64_t col_block_size,
                                               double dst_type_max) {
  constexpr const char* kOp = "npu_dynamic_block_quant";
  check_floating(kOp, "x", x);
  check_dims(kOp, "x", x, 2, 3);
  check_options(kOp, {.round_mode = round_mode});
  check_block_sizes(kOp, row_block_size, col_block_size);
  const QuantType type = quant_type(kOp, "dst_type", dst_type);
  const Tensor exact = wide(x);
  const Tensor top = largest_of_blocks(exact, row_block_size, col_block_size);
  const Tensor scale = (top / (dst_type_max == 0 ? type.high : dst_type_max)).clamp_min(min_scale);
  const Tensor divisor = scale.masked_fill(scale == 0, 1);
  return {quantised(kOp, exact / spread_blocks(divisor, x, row_block_size, col_block_size), type),
          scale.to(at::kFloat)};
}

}  // namespace

void define_mx_quant(OperatorLibrary& library) {
  library.add({
      .schema =
          "npu::npu_dynamic_mx_quant(Tensor input, *, int axis=-1, str round_mode=\"rint\", int dst_type=296, int "
          "block_size=32, int? scale_alg=0, float dst_type_max=0.0, float max_low_bound=0.0) -> (Tensor, Tensor)",
      .kernel = parts(&dynamic_mx_quant),
      .definition = "Dynamic quantisation in the microscaling (MX) format, where blocks of 32 values along axis share "
                    "a power of two as their scale (OCP Microscaling v1.0). With scale_alg 0 it is "
                    "2^(floor(log2(max(abs(block)))) - exponent of the largest value of dst_type); with 1 it is "
                    "2^ceil(log2(max(abs(block)) / largest value of dst_type)), so that nothing saturates (Mishra et "
                    "al., 2025, arXiv:2506.08027). dst_type is float4_e2m1 (default; two values along the last "
                    "dimension in a byte, the first in the lower bits), float8_e4m3fn or float8_e5m2. round_mode must "
                    "be rint, block_size 32, and dst_type_max and max_low_bound 0. Results: the values, and the "
                    "scales as bytes of float8_e8m0fnu in pairs of blocks: the shape of input with ceil(size / 64) "
                    "along axis, and a last dimension of 2.",
  });
  library.add({
      .schema = "npu::npu_dynamic_mx_quant_with_dual_axis(Tensor input, *, str round_mode=\"rint\", int dst_type=296, "
                "int scale_alg=0, float? dst_type_max=0.0) -> (Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&dynamic_mx_quant_with_dual_axis),
      .definition = "npu_dynamic_mx_quant twice: along the last dimension and along the second to last. Results: "
                    "values and scales along the last dimension, and values and scales along the second to last.",
  });
  library.add({
      .schema = "npu::npu_anti_mx_quant(Tensor x, Tensor mxscale, *, int? axis=-1, int? dst_type=15, int? "
                "src_type=292) -> Tensor",
      .kernel = parts(&anti_mx_quant),
      .definition = "Dequantisation of microscaling (MX) values, the inverse of npu_dynamic_mx_quant: x times the "
                    "scale of its block of 32 values along axis (OCP Microscaling v1.0). mxscale has the scales in "
                    "the layout of npu_dynamic_mx_quant. x is of a float8 or float4 type, or else bytes that are read "
                    "as src_type, float8_e4m3fn by default. The result has the shape of the unpacked values, in "
                    "dst_type: bfloat16 (default), float16 or float32.",
  });
  library.add({
      .schema = "npu::npu_swiglu_mx_quant(Tensor x, *, Tensor? group_index=None, int activate_dim=-1, bool "
                "activate_left=False, int swiglu_mode=0, float clamp_limit=7.0, float glu_alpha=1.702, float "
                "glu_bias=1.0, int group_mode=0, int axis=-1, int dst_type=296, str round_mode=\"rint\", int "
                "scale_alg=0, float max_dtype_value=0) -> (Tensor, Tensor)",
      .kernel = parts(&swiglu_mx_quant),
      .definition = "Gated linear unit over the two halves of dimension activate_dim of x, followed by "
                    "npu_dynamic_mx_quant along axis. The gate a is the first half if activate_left is True, else the "
                    "second; b is the other half. swiglu_mode 0 is SwiGLU (Shazeer, 2020): silu(a) * b. Modes 1 and 2 "
                    "are the unit of gpt-oss (OpenAI, 2025): a * sigmoid(glu_alpha * a) * (b + glu_bias), with a "
                    "clamped to at most clamp_limit and b to [-clamp_limit, clamp_limit]; in mode 1, a and b are the "
                    "even and odd elements. group_index must be None, group_mode 0 and max_dtype_value 0. Results: "
                    "the values, of half the size along activate_dim, and their scales.",
  });
  library.add({
      .schema =
          "npu::npu_dynamic_block_quant(Tensor x, *, float min_scale=0.0, str round_mode=\"rint\", int dst_type=1, int "
          "row_block_size=1, int col_block_size=128, float dst_type_max=0.0) -> (Tensor y, Tensor scale)",
      .kernel = parts(&dynamic_block_quant),
      .definition = "Dynamic quantisation in blocks of row_block_size by col_block_size values of the last two "
                    "dimensions with one scale each, as in DeepSeek-V3 (2024): scale = max(abs(block)) / top, at "
                    "least min_scale, and y = x / scale, rounded. top is the largest value of dst_type, or "
                    "dst_type_max unless that is 0. x is [R, C] or [B, R, C]; round_mode must be rint. Results: y in "
                    "dst_type, a type of npu_quantize, int8 by default, and scale in float32, [..., ceil(R / "
                    "row_block_size), ceil(C / col_block_size)].",
  });
}

}  // namespace npugraph::npu_ops
