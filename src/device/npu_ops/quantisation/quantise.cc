// SPDX-License-Identifier: Apache-2.0
// Quantisation to integers and back. Real value = (integer - zero point) * scale (Jacob et al., 2018,
// arXiv:1712.05877), computed in float32.
#include <tuple>
#include <vector>

#include "device/npu_ops/families.h"
#include "device/npu_ops/quantisation/microscaling.h"
#include "device/npu_ops/quantisation/quantisation.h"

namespace npugraph::npu_ops {
namespace {

// `of`, one value for all or one for each position along `axis` of `x`, shaped to broadcast with `x`.
Tensor shaped_along(const char* op, const char* name, const Tensor& of, const Tensor& x, int64_t axis) {
  const Tensor values = wide(of);
  if (values.dim() != 1) return values;
  const bool fits = values.sym_size(0) == 1 || values.sym_size(0) == x.sym_size(axis);
  TORCH_CHECK(fits, op, ": ", name, " has ", values.sym_size(0), " values, allowed are 1 and ", x.sym_size(axis),
              ", the size of dimension ", axis, " of the input");
  std::vector<c10::SymInt> shape(x.dim(), 1);
  shape[at::maybe_wrap_dim(axis, x.dim())] = values.sym_size(0);
  return values.view_symint(shape);
}

Tensor quantize(const Tensor& input, const Tensor& scales, const OptionalTensor& zero_points, int64_t dtype,
                int64_t axis, bool div_mode) {
  constexpr const char* kOp = "npu_quantize";
  check_floating(kOp, "input", input);
  const QuantType type = quant_type(kOp, "dtype", dtype);
  TORCH_CHECK(div_mode || axis >= -2, kOp, ": axis is ", axis,
              ", allowed without div_mode are -2 and what stands for the last dimension, all others from -1 on");
  const int64_t last = axis == -2 ? -2 : -1;
  const int64_t channel = !div_mode ? last : input.dim() == 1 && axis == 1 ? 0 : axis;
  const Tensor scale = shaped_along(kOp, "scales", scales, input, channel);
  Tensor out = div_mode ? wide(input) / scale : wide(input) * scale;
  if (div_mode && !type.is_floating()) out = at::round(out);
  if (zero_points) out = out + shaped_along(kOp, "zero_points", *zero_points, input, channel);
  return quantised(kOp, out, type);
}

// `input` times its smooth scales: the values that dynamic quantisation rounds.
Tensor smoothed(const char* op, const Tensor& input, const OptionalTensor& smooth_scales,
                const OptionalTensor& group_index) {
  check_floating(op, "input", input);
  if (!smooth_scales) {
    TORCH_CHECK(!group_index, op, ": group_index selects rows of smooth_scales, which are not given");
    return wide(input);
  }
  const Tensor scales = wide(*smooth_scales);
  TORCH_CHECK(scales.dim() == (group_index ? 2 : 1) && scales.sym_size(-1) == input.sym_size(-1), op,
              ": smooth_scales has shape ", scales.sym_sizes(), ", allowed is ", group_index ? "[groups, " : "[",
              input.sym_size(-1), "]");
  if (!group_index) return wide(input) * scales;
  check_type(op, "group_index", *group_index, {at::kInt, at::kLong});
  const Tensor rows = wide(input).flatten(0, -2);
  return (rows * rows_by_group(scales, *group_index, rows.sym_size(0))).view_as(input);
}

// Values, and the dimension to reduce over for one scale per token, per channel or per tensor.
struct Mode {
  Tensor values;
  int64_t dim;
};

Mode mode_of(const char* op, c10::string_view quant_mode, const Tensor& exact) {
  if (quant_mode == "pertoken") return {exact, -1};
  if (quant_mode == "perchannel") {
    check_dims(op, "input (per channel)", exact, 2, 8);
    return {exact, -2};
  }
  TORCH_CHECK(quant_mode == "pertensor", op, ": quant_mode is \"", quant_mode,
              "\", allowed are \"pertoken\", \"perchannel\" and \"pertensor\"");
  return {exact.reshape_symint({1, exact.sym_numel()}), -1};
}

// `values` in the shape of `input`, where an element holds eight int4 values.
Tensor in_shape_of(const Tensor& input, const Tensor& values, const QuantType& type) {
  std::vector<c10::SymInt> shape = input.sym_sizes().vec();
  if (type.is_int4) shape.back() = shape.back() / 8;
  return values.view_symint(shape);
}

std::tuple<Tensor, Tensor> dynamic_quant(const Tensor& input, const OptionalTensor& smooth_scales,
                                         const OptionalTensor& group_index, OptionalInt dst_type,
                                         c10::string_view quant_mode, double dst_type_max) {
  constexpr const char* kOp = "npu_dynamic_quant";
  const QuantType type = quant_type(kOp, "dst_type", dst_type);
  const Mode mode = mode_of(kOp, quant_mode, smoothed(kOp, input, smooth_scales, group_index));
  const Quantised out = dynamically_quantised(kOp, mode.values, mode.dim, type, dst_type_max);
  return {in_shape_of(input, out.values, type), out.scale};
}

std::tuple<Tensor, Tensor, Tensor> dynamic_quant_asymmetric(const Tensor& input, const OptionalTensor& smooth_scales,
                                                            const OptionalTensor& group_index, OptionalInt dst_type,
                                                            c10::string_view quant_mode, double dst_type_max) {
  constexpr const char* kOp = "npu_dynamic_quant_asymmetric";
  const QuantType type = quant_type(kOp, "dst_type", dst_type);
  TORCH_CHECK(dst_type_max == 0 && !type.is_floating(), kOp, ": dst_type_max is ", dst_type_max, " and dst_type ",
              type.storage, ", allowed are 0 and an integer type");
  const Mode mode = mode_of(kOp, quant_mode, smoothed(kOp, input, smooth_scales, group_index));
  const Tensor low = at::amin(mode.values, mode.dim, /*keepdim=*/true);
  const Tensor high = at::amax(mode.values, mode.dim, /*keepdim=*/true);
  const Tensor range = (high - low) / (type.high - type.low);
  const Tensor scale = range.masked_fill(range == 0, 1);
  const Tensor offset = type.high - high / scale;
  const Tensor values = in_shape_of(input, quantised(kOp, mode.values / scale + offset, type), type);
  return {values, scale.squeeze(mode.dim).to(at::kFloat), offset.squeeze(mode.dim).to(at::kFloat)};
}

Tensor group_quant(const Tensor& x, const Tensor& scale, const Tensor& group_index, const OptionalTensor& offset,
                   std::optional<at::ScalarType> dst_dtype) {
  constexpr const char* kOp = "npu_group_quant";
  check_floating(kOp, "x", x);
  check_dims(kOp, "x", x, 2, 2);
  check_dims(kOp, "scale", scale, 2, 2);
  check_type(kOp, "group_index", group_index, {at::kInt, at::kLong});
  const OptionalInt code = dst_dtype ? OptionalInt(static_cast<int64_t>(*dst_dtype)) : std::nullopt;
  const Tensor out = wide(x) * rows_by_group(wide(scale), group_index, x.sym_size(0));
  return quantised(kOp, offset ? out + wide(*offset) : out, quant_type(kOp, "dst_dtype", code));
}

// Quantises into `result`, whose type is the quantised type.
Tensor& quantize_into(const char* op, const Tensor& exact, const Tensor& zero_points, Tensor& result) {
  const QuantType type = quant_type(op, "dtype", static_cast<int64_t>(result.scalar_type()));
  return result.copy_(quantised(op, at::round(exact) + zero_points, type));
}

Tensor& quantize_per_channel(const Tensor& inputs, const Tensor& scales, const Tensor& zero_points, int64_t axis,
                             at::ScalarType, Tensor& result) {
  constexpr const char* kOp = "_quantize_per_channel_impl";
  check_floating(kOp, "inputs", inputs);
  const Tensor exact = wide(inputs) / shaped_along(kOp, "scales", scales, inputs, axis);
  return quantize_into(kOp, exact, shaped_along(kOp, "zero_points", zero_points, inputs, axis), result);
}

Tensor& quantize_per_tensor(const Tensor& inputs, const Tensor& scales, const Tensor& zero_points, at::ScalarType,
                            Tensor& result) {
  constexpr const char* kOp = "_quantize_per_tensor_impl";
  check_floating(kOp, "inputs", inputs);
  return quantize_into(kOp, wide(inputs) / wide(scales), wide(zero_points), result);
}

Tensor anti_quant(const Tensor& x, const Tensor& scale, const OptionalTensor& offset, OptionalInt dst_dtype,
                  OptionalInt src_dtype) {
  constexpr const char* kOp = "npu_anti_quant";
  const Tensor values = read_as(kOp, "src_dtype", x, src_dtype);
  if (!src_dtype) check_type(kOp, "x", values, {at::kChar, at::kInt, at::kFloat8_e4m3fn, at::kFloat8_e5m2});
  const at::ScalarType type = type_of_code(kOp, "dst_dtype", dst_dtype, at::kHalf);
  TORCH_CHECK(type == at::kHalf || type == at::kBFloat16 || type == at::kFloat, kOp, ": dst_dtype is ", type,
              ", allowed are Half, BFloat16 and Float");
  Tensor exact = with_int4_unpacked(values).to(at::kFloat);
  if (offset) exact = exact + wide(*offset);
  return (exact * wide(scale)).to(type);
}

Tensor convert_weight_to_int4pack(const Tensor& weight, int64_t) {
  check_type("npu_convert_weight_to_int4pack", "weight", weight, {at::kInt});
  return pack_int4("npu_convert_weight_to_int4pack", weight);
}

}  // namespace

void define_quantise(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_quantize(Tensor input, Tensor scales, Tensor? zero_points, int dtype, int axis=1, bool "
                "div_mode=True) -> Tensor",
      .kernel = parts(&quantize),
      .definition = "Static quantisation (Jacob et al., 2018): round(input / scales) + zero_points, or round(input * "
                    "scales + zero_points) if div_mode is False, saturated. scales and zero_points have one value or "
                    "one per channel along axis; if div_mode is False, axis -2 is the second to last dimension and any "
                    "other the last one. dtype is int8, uint8, int32, int4, float8_e4m3fn, float8_e5m2 or hifloat8 (in "
                    "bytes). The result has the shape of input, but for int4 (torch_npu.int4 or quint4x2): eight "
                    "values along the last dimension are packed in an int32, the first in its lowest bits.",
  });
  library.add({
      .schema = "npu::npu_dynamic_quant(Tensor input, *, Tensor? smooth_scales=None, Tensor? group_index=None, int? "
                "dst_type=None, str quant_mode=\"pertoken\", float dst_type_max=0.0) -> (Tensor, Tensor)",
      .kernel = parts(&dynamic_quant),
      .definition = "Symmetric dynamic quantisation: with t = input * smooth_scales, scale = max(abs(t)) / top and y = "
                    "round(t / scale), saturated; a floating dst_type is rounded to its own values. Where all values "
                    "are 0, scale is 0 and y is 0. top is the largest value of dst_type, or dst_type_max unless that "
                    "is 0. The maximum is over the last dimension (quant_mode pertoken), the second to last "
                    "(perchannel) or all (pertensor). dst_type is a type of npu_quantize, int8 by default. "
                    "smooth_scales is [C]; with group_index, the cumulative ends of groups of rows such as the tokens "
                    "of experts, it is [groups, C]. Results: y, of the shape of input but for packed int4, and scale "
                    "in float32, of the shape of input without the reduced dimension, or [1].",
  });
  library.add({
      .schema =
          "npu::npu_dynamic_quant_asymmetric(Tensor input, *, Tensor? smooth_scales=None, Tensor? group_index=None, "
          "int? dst_type=None, str quant_mode=\"pertoken\", float dst_type_max=0.0) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&dynamic_quant_asymmetric),
      .definition = "Asymmetric variant of npu_dynamic_quant, with an offset: scale = (max - min) / (number of values "
                    "of dst_type - 1), or 1 where that is 0; offset = largest value of dst_type - max / scale; y = "
                    "round(input * smooth_scales / scale + offset). dst_type must be an integer type and dst_type_max "
                    "0. Results: y, and scale and offset in float32, both of the shape of the scale of "
                    "npu_dynamic_quant.",
  });
  library.add({
      .schema = "npu::npu_group_quant(Tensor x, Tensor scale, Tensor group_index, *, Tensor? offset=None, ScalarType? "
                "dst_dtype=None) -> Tensor",
      .kernel = parts(&group_quant),
      .definition = "Static quantisation of groups of rows with a scale for each group, such as the tokens of each "
                    "expert: round(x * scale[g] + offset), saturated. x is [T, C] and scale [groups, C]; group_index, "
                    "[groups] in int32 or int64, has the cumulative ends of the groups, and rows after the last end "
                    "belong to the last group. The result is in dst_dtype, a type of npu_quantize, int8 by default.",
  });
  library.add({
      .schema = "npu::_quantize_per_channel_impl.out(Tensor inputs, Tensor scales, Tensor zero_points, int axis, "
                "ScalarType dtype, *, Tensor(a!) result) -> Tensor(a!)",
      .kernel = parts(&quantize_per_channel),
      .definition = "torch.quantize_per_channel into a plain tensor: writes round(inputs / scales) + zero_points, "
                    "saturated, into result. scales and zero_points have one value per channel along axis. The type "
                    "is that of result; dtype is ignored.",
  });
  library.add({
      .schema = "npu::_quantize_per_tensor_impl.out(Tensor inputs, Tensor scales, Tensor zero_points, ScalarType "
                "dtype, *, Tensor(a!) result) -> Tensor(a!)",
      .kernel = parts(&quantize_per_tensor),
      .definition = "torch.quantize_per_tensor into a plain tensor: writes round(inputs / scales) + zero_points, "
                    "saturated, into result. The type is that of result; dtype is ignored.",
  });
  library.add({
      .schema = "npu::npu_anti_quant(Tensor x, Tensor scale, *, Tensor? offset=None, int? dst_dtype=None, int? "
                "src_dtype=None) -> Tensor",
      .kernel = parts(&anti_quant),
      .definition = "Dequantisation: (x + offset) * scale. x has int8 or float8 values, or int4 values, eight of "
                    "which along the last dimension are packed in each int32; src_dtype is the type that its bytes "
                    "are read as, by default its own. scale and offset broadcast with the unpacked values. The result "
                    "has their shape, in dst_dtype: float16 (default), bfloat16 or float32.",
  });
  library.add({
      .schema = "npu::npu_convert_weight_to_int4pack(Tensor weight, int inner_k_tiles=0) -> Tensor",
      .kernel = parts(&convert_weight_to_int4pack),
      .definition = "Packs int4 values: every eight values along the last dimension of weight, an int32 tensor [..., "
                    "n] of values from -8 to 7, become one int32, the first in the lowest bits. inner_k_tiles is "
                    "ignored. The result is [..., n / 8] in int32.",
  });
}

}  // namespace npugraph::npu_ops
