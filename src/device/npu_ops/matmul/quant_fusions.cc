// SPDX-License-Identifier: Apache-2.0
// Products of quantised matrices, fused with operations before or after them, and other operators on quantised values.
#include <tuple>
#include <vector>

#include "device/npu_ops/families.h"
#include "device/npu_ops/matmul/quant_products.h"

namespace npugraph::npu_ops {
namespace {

Tensor quant_matmul_dequant(const Tensor& x, const Tensor& quantized_weight, const Tensor& weight_scale,
                            const OptionalTensor& bias, const OptionalTensor& x_scale, const OptionalTensor& x_offset,
                            const OptionalTensor& smooth_scale, std::optional<c10::string_view> quant_mode) {
  constexpr const char* kOp = "npu_quant_matmul_dequant";
  check_type(kOp, "quantized_weight", quantized_weight, {at::kChar});
  const Quantised left = quantised_operand(kOp, x, {x_scale, x_offset, smooth_scale, quant_mode.value_or("pertoken")});
  const Tensor sums = int8_product(left.values, quantized_weight.t());
  return finished(kOp, sums, {bias, weight_scale, left.scale, {}}, x.scalar_type());
}

Tensor quant_matmul_gelu(const Tensor& x1, const Tensor& x2, const Tensor& x1_scale, const Tensor& x2_scale,
                         const OptionalTensor& bias, std::optional<c10::string_view> approximate) {
  constexpr const char* kOp = "npu_quant_matmul_gelu";
  const c10::string_view kind = approximate.value_or("gelu_erf");
  TORCH_CHECK(kind == "gelu_erf" || kind == "gelu_tanh", kOp, ": approximate is \"", kind,
              "\", allowed are \"gelu_erf\" and \"gelu_tanh\"");
  const Tensor left = with_int4_unpacked(x1);
  check_type(kOp, "x1", left, {at::kChar});
  const Tensor sums = int8_product(left, read_weight_as(kOp, "x2", x2, std::nullopt, left.sym_size(-1)));
  const Tensor exact = finished(kOp, sums, {bias, x2_scale, x1_scale, {}}, at::kFloat);
  const at::ScalarType type = x2_scale.scalar_type() == at::kBFloat16 ? at::kBFloat16 : at::kHalf;
  return at::gelu(exact, kind == "gelu_erf" ? "none" : "tanh").to(type);
}

Tensor quant_matmul_reduce_sum(const Tensor& x1, const Tensor& x2, const OptionalTensor& x1_scale,
                               const OptionalTensor& x2_scale) {
  constexpr const char* kOp = "npu_quant_matmul_reduce_sum";
  check_type(kOp, "x1", x1, {at::kChar});
  check_type(kOp, "x2", x2, {at::kChar});
  check_dims(kOp, "x1", x1, 3, 3);
  check_dims(kOp, "x2", x2, 3, 3);
  const Tensor products = finished(kOp, int8_product(x1, x2), {{}, x2_scale, x1_scale, {}}, at::kFloat);
  return products.sum(0).to(at::kBFloat16);
}

// The product that is added to `input`, in float32.
Tensor quant_addend(const char* op, const Tensor& x1, const Tensor& x2, const Tensor& x2_scale,
                    const OptionalTensor& x1_scale, at::OptionalIntArrayRef group_sizes, OptionalInt x1_dtype,
                    OptionalInt x2_dtype, OptionalInt x1_scale_dtype, OptionalInt x2_scale_dtype) {
  const Tensor left = read_as(op, "x1", x1, x1_dtype);
  check_type(op, "x1", left, {at::kChar, at::kFloat8_e4m3fn, at::kFloat8_e5m2, at::kFloat});
  const Tensor right = read_weight_as(op, "x2", x2, x2_dtype, left.sym_size(-1));
  Epilogue epilogue;
  const QuantOperands operands{
      left, right, x2_scale, x1_scale, x2_scale_dtype, x1_scale_dtype, group_sizes_of(op, group_sizes)};
  const Tensor sums = scaled_product(op, operands, epilogue);
  return finished(op, sums, epilogue, at::kFloat);
}

Tensor add_quant_matmul(const Tensor& input, const Tensor& x1, const Tensor& x2, const Tensor& x2_scale,
                        const OptionalTensor& x1_scale, at::OptionalIntArrayRef group_sizes, OptionalInt x1_dtype,
                        OptionalInt x2_dtype, OptionalInt x1_scale_dtype, OptionalInt x2_scale_dtype) {
  const Tensor added = quant_addend("npu_add_quant_matmul", x1, x2, x2_scale, x1_scale, group_sizes, x1_dtype, x2_dtype,
                                    x1_scale_dtype, x2_scale_dtype);
  return input + added.to(input.scalar_type());
}

Tensor& add_quant_matmul_(Tensor& input, const Tensor& x1, const Tensor& x2, const Tensor& x2_scale,
                          const OptionalTensor& x1_scale, at::OptionalIntArrayRef group_sizes, OptionalInt x1_dtype,
                          OptionalInt x2_dtype, OptionalInt x1_scale_dtype, OptionalInt x2_scale_dtype) {
  return input.add_(quant_addend("npu_add_quant_matmul_", x1, x2, x2_scale, x1_scale, group_sizes, x1_dtype, x2_dtype,
                                 x1_scale_dtype, x2_scale_dtype));
}

Tensor quant_conv2d(const Tensor& input, const Tensor& weight, const Tensor& scale, at::IntArrayRef strides,
                    at::IntArrayRef pads, at::IntArrayRef dilations, int64_t groups, int64_t offset_x,
                    c10::string_view round_mode, OptionalInt output_dtype, const OptionalTensor& bias,
                    const OptionalTensor& offset, OptionalInt, OptionalInt) {
  constexpr const char* kOp = "npu_quant_conv2d";
  check_type(kOp, "input", input, {at::kChar});
  check_type(kOp, "weight", weight, {at::kChar});
  TORCH_CHECK(offset_x == 0, kOp, ": offset_x is ", offset_x, ", allowed is 0");
  TORCH_CHECK(round_mode == "rint", kOp, ": round_mode is \"", round_mode, "\", allowed is \"rint\"");
  const at::ScalarType type = output_type(kOp, output_dtype, at::kHalf);
  // float64 holds sums of int8 products exactly, float32 does not.
  const Tensor sums =
      at::conv2d(input.to(at::kDouble), weight.to(at::kDouble), {}, strides, pads, dilations, groups).to(at::kInt);
  return finished(kOp, sums.permute({0, 2, 3, 1}), {bias, scale, {}, offset}, type).permute({0, 3, 1, 2}).contiguous();
}

// The type of `dtype`; int4 if it is None or int32.
QuantType small_type(const char* op, OptionalInt dtype) {
  const bool is_int4 = !dtype || *dtype == static_cast<int64_t>(at::kInt);
  return quant_type(op, "dst_dtype", is_int4 ? static_cast<int64_t>(at::kQUInt4x2) : *dtype);
}

std::tuple<Tensor, Tensor> kronecker_quant(const Tensor& x, const Tensor& kronecker_p1, const Tensor& kronecker_p2,
                                           std::optional<double> clip_ratio, OptionalInt dst_dtype,
                                           std::optional<double> dst_type_max) {
  constexpr const char* kOp = "npu_kronecker_quant";
  check_floating(kOp, "x", x);
  check_dims(kOp, "x", x, 3, 3);
  const QuantType type = small_type(kOp, dst_dtype);
  const Tensor exact = at::matmul(at::matmul(wide(kronecker_p1), wide(x)), wide(kronecker_p2));
  const double top = dst_type_max.value_or(0) == 0 ? type.high : *dst_type_max;
  const Tensor scale = exact.abs().amax({1, 2}, /*keepdim=*/true) * clip_ratio.value_or(1.0) / top;
  const Tensor divisor = scale.masked_fill(scale == 0, 1);
  return {quantised(kOp, exact / divisor, type), scale.flatten().to(at::kFloat)};
}

std::tuple<Tensor, Tensor> rotate_quant(const Tensor& x, const Tensor& rotation, const OptionalTensor& alpha,
                                        OptionalInt dst_dtype, OptionalInt axis,
                                        std::optional<c10::string_view> round_mode, OptionalInt scale_alg,
                                        std::optional<double> dst_type_max, std::optional<bool> transpose_y) {
  constexpr const char* kOp = "npu_rotate_quant";
  check_floating(kOp, "x", x);
  check_dims(kOp, "rotation", rotation, 2, 2);
  const bool plain = !alpha && axis.value_or(-1) == -1 && round_mode.value_or("rint") == "rint" &&
                     scale_alg.value_or(0) == 0 && !transpose_y.value_or(false);
  TORCH_CHECK(plain, kOp, ": allowed are alpha None, axis -1, round_mode \"rint\", scale_alg 0 and transpose_y False");
  const c10::SymInt size = rotation.sym_size(0), columns = x.sym_size(-1);
  TORCH_CHECK(columns % size == 0, kOp, ": rotation is of ", size,
              " values, which do not divide the last dimension of x, ", columns);
  const Tensor rotated = at::matmul(wide(x).unflatten_symint(-1, {columns / size, size}), wide(rotation)).flatten(-2);
  const QuantType type = quant_type(kOp, "dst_dtype", dst_dtype);
  const Quantised out = dynamically_quantised(kOp, rotated, -1, type, dst_type_max.value_or(0));
  return {out.values, out.scale};
}

std::tuple<Tensor, Tensor> quant_max(const Tensor& x, const Tensor& scale, c10::string_view round_mode,
                                     int64_t dst_dtype, const OptionalTensor& group_list) {
  constexpr const char* kOp = "npu_quant_max";
  check_floating(kOp, "x", x);
  const QuantType type = quant_type(kOp, "dst_dtype", dst_dtype);
  const c10::string_view mode = type.is_hifloat8 ? "round" : "rint";
  TORCH_CHECK(round_mode == mode && !group_list, kOp, ": allowed are round_mode \"", mode, "\" and group_list None");
  const Tensor values = quantised(kOp, wide(x) * wide(scale), type);
  return {values, x.abs().amax().reshape({1})};
}

}  // namespace

void define_quant_fusions(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_quant_matmul_dequant(Tensor x, Tensor quantized_weight, Tensor weight_scale, *, Tensor? "
                "bias=None, Tensor? x_scale=None, Tensor? x_offset=None, Tensor? smooth_scale=None, str? "
                "quant_mode='pertoken') -> Tensor",
      .kernel = parts(&quant_matmul_dequant),
      .definition = "Linear layer with an int8 weight whose input is quantised on the way: q = round(x * smooth_scale "
                    "/ s), saturated to int8, and y = (q @ quantized_weight.T + bias) * weight_scale * s, where a "
                    "bias that is not int32 is added last. x is [M, K], quantized_weight [N, K], weight_scale and "
                    "bias [N], and smooth_scale [K]. s is x_scale, one value or one per row, or by default max(abs(x "
                    "* smooth_scale)) / 127 of each row; quant_mode pertensor requires x_scale. x_offset must be "
                    "None. The result is [M, N] in the type of x.",
  });
  library.add({
      .schema = "npu::npu_quant_matmul_gelu(Tensor x1, Tensor x2, Tensor x1_scale, Tensor x2_scale, *, Tensor? "
                "bias=None, str? approximate='gelu_erf') -> Tensor",
      .kernel = parts(&quant_matmul_gelu),
      .definition = "Product of quantised matrices, dequantised, followed by GELU: gelu(x1 @ x2 * x2_scale * x1_scale "
                    "+ bias), where an int32 bias is added to x1 @ x2 instead. x1 is [..., M, K] and x2 [..., K, N] "
                    "in int8, or in int4 packed in int32; x1_scale is [M], x2_scale one value or [N]. approximate is "
                    "gelu_erf or gelu_tanh. The result is in bfloat16 if x2_scale is, else in float16.",
  });
  library.add({
      .schema = "npu::npu_quant_matmul_reduce_sum(Tensor x1, Tensor x2, *, Tensor? x1_scale=None, Tensor? "
                "x2_scale=None) -> Tensor",
      .kernel = parts(&quant_matmul_reduce_sum),
      .definition = "Batched product of int8 matrices, dequantised and summed over the batch: sum over b of x1[b] @ "
                    "x2[b] * x2_scale * x1_scale[b]. x1 is [B, M, K], x2 [B, K, N], x1_scale [B, M] and x2_scale [N]. "
                    "The result is [M, N] in bfloat16.",
  });
  library.add({
      .schema = "npu::npu_add_quant_matmul(Tensor input, Tensor x1, Tensor x2, Tensor x2_scale, *, Tensor? "
                "x1_scale=None, int[]? group_sizes=None, int? x1_dtype=None, int? x2_dtype=None, int? "
                "x1_scale_dtype=None, int? x2_scale_dtype=None) -> Tensor",
      .kernel = parts(&add_quant_matmul),
      .definition = "Adds a product of quantised matrices to input: input + x1 @ x2, scaled as by npu_quant_matmul "
                    "with x1_scale as its pertoken_scale and x2_scale as its scale. x1_dtype, x2_dtype, "
                    "x1_scale_dtype, x2_scale_dtype and group_sizes are those of npu_quant_matmul, too. input is "
                    "[..., M, N]; the result has its shape and type.",
  });
  library.add({
      .schema = "npu::npu_add_quant_matmul_(Tensor(a!) input, Tensor x1, Tensor x2, Tensor x2_scale, *, Tensor? "
                "x1_scale=None, int[]? group_sizes=None, int? x1_dtype=None, int? x2_dtype=None, int? "
                "x1_scale_dtype=None, int? x2_scale_dtype=None) -> Tensor(a!)",
      .kernel = parts(&add_quant_matmul_),
      .definition = "npu_add_quant_matmul in place, in input.",
  });
  library.add({
      .schema = "npu::npu_quant_conv2d(Tensor input, Tensor weight, Tensor scale, int[2] strides=1, int[2] pads=0, "
                "int[2] dilations=1, int groups=1, int offset_x=0, str round_mode='rint', int? output_dtype=None, "
                "Tensor? bias=None, Tensor? offset=None, int? input_dtype=None, int? weight_dtype=None) -> Tensor",
      .kernel = parts(&quant_conv2d),
      .definition = "torch.nn.functional.conv2d of int8 values with int32 sums, dequantised: y = (conv2d(input, "
                    "weight) + bias) * scale. input is [N, C, H, W], weight [O, C / groups, kH, kW], bias [O] in "
                    "int32, and scale one value or [O], floating or encoded by npu_trans_quant_param; a floating-point "
                    "bias is added after scaling. offset_x must be 0 and round_mode rint; input_dtype and weight_dtype "
                    "are ignored. The result is in output_dtype, a torch.dtype, float16 by default: y for float16, "
                    "bfloat16, float32, float8_e4m3fn and float8_e5m2 (the last two saturated); round(y + offset), "
                    "saturated, for int8, where offset is one value or [O] and by default that of an encoded scale, or "
                    "0; for int32 the sums with an int32 bias, but without scale.",
  });
  library.add({
      .schema = "npu::npu_kronecker_quant(Tensor x, Tensor kronecker_p1, Tensor kronecker_p2, float? clip_ratio=None, "
                "int? dst_dtype=None, float? dst_type_max=None) -> (Tensor out, Tensor quant_scale)",
      .kernel = parts(&kronecker_quant),
      .definition = "Multiplies each matrix of x from both sides and quantises it with one scale, the transform of "
                    "FlatQuant (Sun et al., 2024): t = kronecker_p1 @ x @ kronecker_p2, scale = max(abs(t)) * "
                    "clip_ratio / top, and out = round(t / scale), saturated; a matrix of zeros has the scale 0. x is "
                    "[B, M, N], kronecker_p1 [M, M] and kronecker_p2 [N, N]; clip_ratio is 1 by default. top is the "
                    "largest value of the type, 7 for int4, or dst_type_max unless that is 0. dst_dtype is a type of "
                    "npu_quantize; None and int32 stand for int4. Results: out, for int4 packed as [B, M, N / 8] in "
                    "int32, and scale, [B], in float32.",
  });
  library.add({
      .schema = "npu::npu_rotate_quant(Tensor x, Tensor rotation, *, Tensor? alpha=None, int? dst_dtype=None, int? "
                "axis=-1, str? round_mode=\"rint\", int? scale_alg=0, float? dst_type_max=0.0, bool? "
                "transpose_y=False) -> (Tensor, Tensor)",
      .kernel = parts(&rotate_quant),
      .definition = "Rotation, followed by npu_dynamic_quant per token (QuaRot: Ashkboos et al., 2024): each part of n "
                    "values of the last dimension of x becomes part @ rotation, where rotation is [n, n], in float32 "
                    "and without rounding. With t as the rotated values, scale = max(abs(t)) / top of each row, and y "
                    "= round(t / scale). dst_dtype, int8 by default, and dst_type_max are dst_type and dst_type_max of "
                    "npu_dynamic_quant, which say what top is. alpha must be None, axis -1, round_mode rint, scale_alg "
                    "0 and transpose_y False. Results: y in the shape of x (int4 packed as by npu_quantize), and scale "
                    "in float32, of the shape of x without the last dimension.",
  });
  library.add({
      .schema = "npu::npu_quant_max(Tensor x, Tensor scale, *, str round_mode=\"rint\", int dst_dtype=291, Tensor? "
                "group_list=None) -> (Tensor, Tensor)",
      .kernel = parts(&quant_max),
      .definition = "Static quantisation with the largest absolute value of x as a second result: x * scale, rounded "
                    "and saturated to dst_dtype, a type of npu_quantize, float8_e5m2 by default. scale broadcasts "
                    "against x. round_mode must be round for hifloat8, which rounds halves away from zero, and rint "
                    "for other types; group_list must be None. Results: the quantised values, and max(abs(x)), [1], "
                    "in the type of x.",
  });
}

}  // namespace npugraph::npu_ops
