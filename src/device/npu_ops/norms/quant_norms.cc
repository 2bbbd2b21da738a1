// SPDX-License-Identifier: Apache-2.0
// Root mean square normalisation with quantised results. Values are quantised from float32, except in
// npu_add_rms_norm_quant, whose results are those of npu_quantize on the result of npu_add_rms_norm.
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/norms/norms.h"
#include "device/npu_ops/quantisation/microscaling.h"

namespace npugraph::npu_ops {
namespace {

const Tensor& or_undefined(const OptionalTensor& tensor) {
  static const Tensor none;
  return tensor ? *tensor : none;
}

Normed with_beta(Normed normed, const OptionalTensor& beta) {
  if (const Tensor shift = wide(beta); shift.defined()) normed.wide = normed.wide + shift;
  return normed;
}

// `gamma` [1, n] as [n].
Tensor as_row(const Tensor& gamma) { return gamma.dim() == 2 && gamma.sym_size(0) == 1 ? gamma.squeeze(0) : gamma; }

Tensor sum_of_inputs(const char* op, const Tensor& x1, const Tensor& x2) {
  check_same_shape(op, "x2", x2, "x1", x1);
  return x1 + x2;
}

// Quantises as npu_quantize does: it rounds quotients before it adds zero points, so that the rounding of halves does
// not depend on zero points.
Tensor quantised_as_apart(const char* op, const Tensor& normed, const Tensor& scale, const OptionalTensor& zero_points,
                          bool divide, const QuantType& type) {
  const Tensor zero = or_undefined(zero_points);
  if (!divide || !zero.defined() || !at::isIntegralType(zero.scalar_type(), /*includeBool=*/false))
    return statically_quantised(op, normed, scale, zero, divide, type);
  return quantised(op, at::round(normed / wide(scale)) + wide(zero), type);
}

std::tuple<Tensor, Tensor, Tensor> add_rms_norm_quant(const Tensor& x1, const Tensor& x2, const Tensor& gamma,
                                                      const Tensor& scales1, const OptionalTensor& zero_points1,
                                                      const OptionalTensor& beta, const OptionalTensor& scales2,
                                                      const OptionalTensor& zero_points2, int64_t axis, double epsilon,
                                                      bool div_mode, std::optional<int64_t> dst_type) {
  const char* op = "npu_add_rms_norm_quant";
  TORCH_CHECK(axis == -1 || axis == x1.dim() - 1, op, ": axis is ", axis, ", allowed is -1");
  const QuantType type = quant_type(op, "dst_type", dst_type);
  const Tensor sum = sum_of_inputs(op, x1, x2);
  const Tensor normed = wide(with_beta(rms_normed(op, sum, gamma, epsilon), beta).wide.to(sum.scalar_type()));
  const Tensor y1 = quantised_as_apart(op, normed, scales1, zero_points1, div_mode, type);
  const Tensor y2 = scales2 && scales2->defined()
                        ? quantised_as_apart(op, normed, *scales2, zero_points2, div_mode, type)
                        : at::zeros_like(y1);
  return {y1, y2, sum};
}

Quantised quantised_branch(const char* op, const Tensor& normed, const OptionalTensor& smooth, const QuantType& type,
                           bool wanted) {
  if (!wanted) return {normed.new_empty({0}, normed.options().dtype(type.storage)), normed.new_empty({0}, at::kFloat)};
  const Tensor factor = wide(smooth);
  return dynamically_quantised(op, factor.defined() ? normed * factor : normed, -1, type);
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> add_rms_norm_dynamic_quant(
    const Tensor& x1, const Tensor& x2, const Tensor& gamma, const OptionalTensor& smooth_scale1,
    const OptionalTensor& smooth_scale2, const OptionalTensor& beta, double epsilon,
    std::optional<std::array<bool, 2>> output_mask, std::optional<int64_t> y_dtype) {
  const char* op = "npu_add_rms_norm_dynamic_quant";
  const QuantType type = quant_type(op, "y_dtype", y_dtype);
  const bool both = smooth_scale1 && smooth_scale1->defined() && smooth_scale2 && smooth_scale2->defined();
  const std::array<bool, 2> wanted = output_mask.value_or(std::array<bool, 2>{true, both});
  const Tensor sum = sum_of_inputs(op, x1, x2);
  const Tensor normed = with_beta(rms_normed(op, sum, gamma, epsilon), beta).wide;
  const Quantised first = quantised_branch(op, normed, smooth_scale1, type, wanted[0]);
  const Quantised second = quantised_branch(op, normed, smooth_scale2, type, wanted[1]);
  return {first.values, second.values, sum, first.scale, second.scale};
}

Tensor rms_norm_quant(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& scale,
                      const Tensor& offset, double epsilon, std::optional<int64_t> dst_dtype) {
  const char* op = "npu_rms_norm_quant";
  const Normed normed = with_beta(rms_normed(op, x, as_row(gamma), epsilon), beta);
  return statically_quantised(op, normed.wide, scale, offset, /*divide=*/false, quant_type(op, "dst_dtype", dst_dtype));
}

std::tuple<Tensor, Tensor> rms_norm_quant_v2(const Tensor& x, const Tensor& gamma, const Tensor& scale,
                                             const OptionalTensor& offset, const OptionalTensor& beta, double epsilon,
                                             bool div_mode, std::optional<int64_t> dst_dtype) {
  const char* op = "npu_rms_norm_quant_v2";
  const Normed normed = with_beta(rms_normed(op, x, as_row(gamma), epsilon), beta);
  return {statically_quantised(op, normed.wide, scale, or_undefined(offset), div_mode,
                               quant_type(op, "dst_dtype", dst_dtype)),
          normed.rstd};
}

std::tuple<Tensor, Tensor> rms_norm_backward_quant(const Tensor& dy, const Tensor& x, const Tensor& rstd,
                                                   const Tensor& gamma, const Tensor& scale_x,
                                                   const OptionalTensor& offset_x, std::optional<bool> div_mode,
                                                   c10::string_view quant_mode, std::optional<int64_t> dst_type) {
  const char* op = "_npu_rms_norm_backward_quant";
  TORCH_CHECK(quant_mode == "static", op, ": quant_mode is '", quant_mode, "', allowed is 'static'");
  const RmsGradients out = rms_norm_gradients(op, dy, x, gamma, rstd);
  return {statically_quantised(op, out.x, scale_x, or_undefined(offset_x), div_mode.value_or(true),
                               quant_type(op, "dst_type", dst_type)),
          out.gamma};
}

struct MxNormed {
  Blocks y;
  Tensor rstd;
};

MxNormed mx_normed(const char* op, const Tensor& x, const Tensor& gamma, const OptionalTensor& beta, double epsilon,
                   int64_t scale_alg, c10::string_view round_mode, int64_t dst_type) {
  check_options(op, {.round_mode = round_mode, .scale_alg = scale_alg});
  const Normed normed = with_beta(rms_normed(op, x, gamma, epsilon), beta);
  return {to_blocks(op, normed.wide, -1, element_type(op, "dst_type", dst_type), scale_alg), normed.rstd};
}

std::tuple<Tensor, Tensor, Tensor> rms_norm_dynamic_mx_quant(const Tensor& x, const Tensor& gamma,
                                                             const OptionalTensor& beta, double epsilon,
                                                             int64_t scale_alg, c10::string_view round_mode,
                                                             int64_t dst_type) {
  const char* op = "npu_rms_norm_dynamic_mx_quant";
  const MxNormed out = mx_normed(op, x, gamma, beta, epsilon, scale_alg, round_mode, dst_type);
  return {out.y.values, out.y.scale, out.rstd};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> add_rms_norm_dynamic_mx_quant(const Tensor& x1, const Tensor& x2,
                                                                         const Tensor& gamma,
                                                                         const OptionalTensor& beta, double epsilon,
                                                                         int64_t scale_alg, c10::string_view round_mode,
                                                                         int64_t dst_type) {
  const char* op = "npu_add_rms_norm_dynamic_mx_quant";
  const Tensor sum = sum_of_inputs(op, x1, x2);
  const MxNormed out = mx_normed(op, sum, gamma, beta, epsilon, scale_alg, round_mode, dst_type);
  return {out.y.values, sum, out.y.scale, out.rstd};
}

}  // namespace

void define_quant_norms(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_add_rms_norm_quant(Tensor x1, Tensor x2, Tensor gamma, Tensor scales1, Tensor? zero_points1, "
                "Tensor? beta=None, Tensor? scales2=None, Tensor? zero_points2=None, *, int axis=-1, float "
                "epsilon=1e-06, bool div_mode=True, int? dst_type=None) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&add_rms_norm_quant),
      .definition = "npu_add_rms_norm, followed by static quantisation: t = npu_rms_norm(x1 + x2, gamma, epsilon) + "
                    "beta, rounded to the type of x1 + x2, and y = round(t / scales + zero_points), saturated. Zero "
                    "points of an integer type are added after t / scales is rounded. If div_mode is False, y = "
                    "round(t * scales + zero_points). scales and zero_points have one value or one per channel; axis "
                    "must be the last dimension; dst_type is a type of npu_quantize, int8 by default. Results: y of "
                    "scales1 and zero_points1, y of scales2 and zero_points2 (zeros if scales2 is None), and x1 + x2.",
  });
  library.add({
      .schema = "npu::npu_add_rms_norm_dynamic_quant(Tensor x1, Tensor x2, Tensor gamma, *, Tensor? "
                "smooth_scale1=None, Tensor? smooth_scale2=None, Tensor? beta=None, float epsilon=1e-6, bool[2]? "
                "output_mask=None, int? y_dtype=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&add_rms_norm_dynamic_quant),
      .definition = "npu_add_rms_norm, followed by up to two dynamic quantisations per token: t = (npu_rms_norm(x1 + "
                    "x2, gamma, epsilon) + beta) * smooth_scale in float32, scale = max(abs(t)) / 127 of each row, "
                    "and y = round(t / scale). y_dtype is a type of npu_quantize, int8 by default, whose largest "
                    "value takes the place of 127. output_mask chooses which of the two quantisations are computed; "
                    "by default the second only if both smooth scales are given. Results: y1, y2, x1 + x2 in its "
                    "type, scale1 and scale2 in float32, [...]; those that are not computed are empty.",
  });
  library.add({
      .schema = "npu::npu_rms_norm_quant(Tensor x, Tensor gamma, Tensor beta, Tensor scale, Tensor offset, float "
                "epsilon=1e-06, *, int? dst_dtype=None) -> Tensor",
      .kernel = parts(&rms_norm_quant),
      .definition = "npu_rms_norm, followed by static quantisation: round((npu_rms_norm(x, gamma, epsilon) + beta) * "
                    "scale + offset), saturated and computed in float32. gamma is [C] or [1, C]; scale and offset "
                    "have one value or one per channel. The result is in dst_dtype, a type of npu_quantize, int8 by "
                    "default.",
  });
  library.add({
      .schema = "npu::npu_rms_norm_quant_v2(Tensor x, Tensor gamma, Tensor scale, *, Tensor? offset=None, Tensor? "
                "beta=None, float epsilon=1e-06, bool div_mode=True, int? dst_dtype=None) -> (Tensor, Tensor)",
      .kernel = parts(&rms_norm_quant_v2),
      .definition = "npu_rms_norm_quant that divides by the scale: y = round((npu_rms_norm(x, gamma, epsilon) + beta) "
                    "/ scale + offset), or with * scale if div_mode is False. offset and beta may be None. Results: y "
                    "in dst_dtype, int8 by default, and the rstd of npu_rms_norm in float32.",
  });
  library.add({
      .schema = "npu::npu_rms_norm_dynamic_mx_quant(Tensor x, Tensor gamma, *, Tensor? beta=None, float epsilon=1e-06, "
                "int scale_alg=0, str round_mode=\"rint\", int dst_type=296) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&rms_norm_dynamic_mx_quant),
      .definition = "npu_rms_norm, followed by npu_dynamic_mx_quant along the last dimension of npu_rms_norm(x, "
                    "gamma, epsilon) + beta, which is in float32. scale_alg, round_mode and dst_type are those of "
                    "npu_dynamic_mx_quant. Results: the quantised values, their scales, and rstd in float32.",
  });
  library.add({
      .schema = "npu::npu_add_rms_norm_dynamic_mx_quant(Tensor x1, Tensor x2, Tensor gamma, *, Tensor? beta=None, "
                "float epsilon=1e-06, int scale_alg=0, str round_mode=\"rint\", int dst_type=296) -> (Tensor, Tensor, "
                "Tensor, Tensor)",
      .kernel = parts(&add_rms_norm_dynamic_mx_quant),
      .definition = "npu_rms_norm_dynamic_mx_quant of sum = x1 + x2, rounded to the type of the inputs. Results: the "
                    "quantised values, sum, their scales, and rstd in float32.",
  });
  library.add({
      .schema =
          "npu::_npu_rms_norm_backward_quant(Tensor dy, Tensor x, Tensor rstd, Tensor gamma, Tensor scale_x, *, "
          "Tensor? offset_x=None, bool? div_mode=True, str quant_mode=\"static\", int? dst_type=1) -> (Tensor, Tensor)",
      .kernel = parts(&rms_norm_backward_quant),
      .definition = "npu_rms_norm_backward, followed by static quantisation of the gradient of x: round(dx / scale_x "
                    "+ offset_x), or round(dx * scale_x + offset_x) if div_mode is False, saturated. scale_x and "
                    "offset_x have one value or one per channel; quant_mode must be static. Results: the quantised "
                    "gradient in dst_type, a type of npu_quantize, int8 by default, and the gradient of gamma in "
                    "float32.",
  });
}

}  // namespace npugraph::npu_ops
