// SPDX-License-Identifier: Apache-2.0
// Activations with quantised results, and the dequantisation of sums. In float32.
#include <string_view>
#include <tuple>
#include <vector>

#include "device/npu/facts.h"
#include "device/npu_ops/families.h"
#include "device/npu_ops/matmul/quant_products.h"
#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

at::ScalarType half_or_bfloat(const char* op, std::optional<at::ScalarType> type) {
  const at::ScalarType out = type.value_or(at::kHalf);
  TORCH_CHECK(out == at::kHalf || out == at::kBFloat16, op, ": output_dtype is ", out,
              ", allowed are Half and BFloat16");
  return out;
}

Tensor dequant_bias(const Tensor& x, const Tensor& weight_scale, const OptionalTensor& activation_scale,
                    const OptionalTensor& bias, std::optional<at::ScalarType> output_dtype) {
  constexpr const char* kOp = "npu_dequant_bias";
  check_type(kOp, "x", x, {at::kInt});
  check_dims(kOp, "x", x, 2, 2);
  return finished(kOp, x, {bias, weight_scale, activation_scale, {}}, half_or_bfloat(kOp, output_dtype));
}

// Cumulative ends of groups from ends or from counts.
Tensor group_ends(const Tensor& groups, bool are_counts) { return are_counts ? groups.cumsum(0) : groups; }

// Rows of a table for all rows of values: with `ends` of groups, the table has one row for each
// group, else one for all.
struct RowTable {
  Tensor ends;
  c10::SymInt rows;
  OptionalTensor operator()(const OptionalTensor& table) const {
    if (!table || !ends.defined()) return table;
    const bool one_each = table->dim() == 1 && table->sym_size(0) == ends.sym_size(0);
    return rows_by_group(one_each ? table->unsqueeze(-1) : *table, ends, rows);
  }
};

struct StaticOrDynamic {
  const char* op;
  int64_t quant_mode;  // 0 static, 1 dynamic
  QuantType type;
};

// Quantises the rows of `exact`. Static quantisation divides or multiplies by `factor`, and its scales are zeros.
std::tuple<Tensor, Tensor> quantised_by(const StaticOrDynamic& how, const Tensor& exact, const OptionalTensor& factor,
                                        const OptionalTensor& offset, bool divides) {
  TORCH_CHECK(how.quant_mode == 0 || how.quant_mode == 1, how.op, ": quant_mode is ", how.quant_mode,
              ", allowed are 0 (static) and 1 (dynamic)");
  if (how.quant_mode == 1) {
    const Quantised out = dynamically_quantised(how.op, factor ? exact * wide(*factor) : exact, -1, how.type);
    return {out.values, out.scale};
  }
  Tensor out = exact;
  if (factor) out = divides ? out / wide(*factor) : out * wide(*factor);
  if (offset) out = out + wide(*offset);
  return {quantised(how.op, out, how.type), exact.select(-1, 0).to(at::kFloat).mul(0)};
}

std::tuple<Tensor, Tensor> dequant_swiglu_quant(const Tensor& x, const OptionalTensor& weight_scale,
                                                const OptionalTensor& activation_scale, const OptionalTensor& bias,
                                                const OptionalTensor& quant_scale, const OptionalTensor& quant_offset,
                                                const OptionalTensor& group_index, bool activate_left,
                                                int64_t quant_mode, OptionalInt dst_type, OptionalInt round_mode,
                                                OptionalInt activate_dim, int64_t swiglu_mode, double clamp_limit,
                                                double glu_alpha, double glu_bias) {
  constexpr const char* kOp = "npu_dequant_swiglu_quant";
  check_type(kOp, "x", x, {at::kInt, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble});
  check_dims(kOp, "x", x, 2, 8);
  TORCH_CHECK(round_mode.value_or(0) == 0, kOp, ": round_mode is ", *round_mode, ", allowed is 0 (half to even)");
  TORCH_CHECK(x.scalar_type() != at::kInt || weight_scale, kOp, ": x is of type Int, and weight_scale is not given");
  const Tensor rows = x.flatten(0, -2);
  const RowTable table{group_index ? group_index->cumsum(0) : Tensor(), rows.sym_size(0)};
  Tensor exact = wide(rows);
  if (x.scalar_type() == at::kInt) {
    const OptionalTensor tokens = activation_scale ? OptionalTensor(activation_scale->flatten()) : std::nullopt;
    exact = finished(kOp, rows, {table(bias), table(weight_scale), tokens, {}}, at::kFloat);
  }
  const Gate gate{swiglu_mode, activate_left, clamp_limit, glu_alpha, glu_bias};
  const Tensor out = gated(kOp, exact.view_symint(x.sym_sizes()), activate_dim.value_or(-1), gate);
  const StaticOrDynamic how{kOp, quant_mode, quant_type(kOp, "dst_type", dst_type)};
  if (out.dim() == 2) return quantised_by(how, out, table(quant_scale), table(quant_offset), /*divides=*/true);
  TORCH_CHECK(!group_index, kOp, ": x has ", x.dim(), " dimensions, allowed with group_index are 2");
  return quantised_by(how, out, quant_scale, quant_offset, /*divides=*/true);
}

// On this NPU npu_swiglu_quant returns the factors that it multiplied by, and not their reciprocals.
bool is_910b() {
  const int version = npu::facts().soc_version;
  return version >= 220 && version <= 225;
}

std::tuple<Tensor, Tensor> swiglu_quant(const Tensor& x, const OptionalTensor& smooth_scales,
                                        const OptionalTensor& offsets, const OptionalTensor& group_index,
                                        bool activate_left, int64_t quant_mode, int64_t group_list_type,
                                        std::optional<at::ScalarType> dst_type) {
  constexpr const char* kOp = "npu_swiglu_quant";
  check_floating(kOp, "x", x);
  check_dims(kOp, "x", x, 2, 8);
  TORCH_CHECK(group_list_type == 0 || group_list_type == 1, kOp, ": group_list_type is ", group_list_type,
              ", allowed are 0 (cumulative) and 1 (counts)");
  const Tensor out = gated(kOp, wide(x).flatten(0, -2), -1, {.left = activate_left});
  const RowTable table{group_index ? group_ends(*group_index, group_list_type == 1) : Tensor(), out.sym_size(0)};
  const OptionalInt code = dst_type ? OptionalInt(static_cast<int64_t>(*dst_type)) : std::nullopt;
  const StaticOrDynamic how{kOp, quant_mode, quant_type(kOp, "dst_type", code)};
  const auto [values, row_scale] = quantised_by(how, out, table(smooth_scales), table(offsets), /*divides=*/false);
  const Tensor scale = quant_mode == 1 && is_910b() ? row_scale.reciprocal() : row_scale;
  std::vector<c10::SymInt> shape = x.sym_sizes().vec();
  shape.back() = values.sym_size(-1);
  const Tensor shaped = values.view_symint(shape);
  shape.pop_back();
  return {shaped, scale.view_symint(shape)};
}

std::tuple<Tensor, Tensor> gelu_quant(const Tensor& input, const OptionalTensor& input_scale,
                                      const OptionalTensor& input_offset, c10::string_view approximate,
                                      c10::string_view quant_mode, OptionalInt dst_type, c10::string_view round_mode) {
  constexpr const char* kOp = "npu_gelu_quant";
  check_floating(kOp, "input", input);
  TORCH_CHECK(quant_mode == "static" || quant_mode == "dynamic", kOp, ": quant_mode is \"", quant_mode,
              "\", allowed are \"static\" and \"dynamic\"");
  TORCH_CHECK(round_mode == "rint", kOp, ": round_mode is \"", round_mode, "\", allowed is \"rint\"");
  TORCH_CHECK(quant_mode == "dynamic" || input_scale, kOp, ": quant_mode is \"static\", and input_scale is not given");
  const QuantType type = quant_type(kOp, "dst_type", dst_type);
  Tensor out = at::gelu(wide(input), approximate);
  if (input_scale) out = out * wide(*input_scale);
  if (quant_mode == "dynamic") {
    const Quantised result = dynamically_quantised(kOp, out, -1, type);
    return {result.values, result.scale};
  }
  if (input_offset) out = out + wide(*input_offset);
  return {quantised(kOp, out, type), input.new_empty({0}, at::kFloat)};
}

}  // namespace

void define_quant_activations(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_dequant_bias(Tensor x, Tensor weight_scale, Tensor? activation_scale, Tensor? bias, *, "
                "ScalarType? output_dtype=None) -> Tensor",
      .kernel = parts(&dequant_bias),
      .definition = "Dequantises the int32 sums x [M, N] of a quantised GEMM: y = x * weight_scale * activation_scale "
                    "+ bias. weight_scale [N] is per channel, activation_scale [M] per token, bias [N]. An int32 bias "
                    "is added to x before the scales, any other one after them. The result is [M, N] in output_dtype, "
                    "float16 (the default) or bfloat16.",
  });
  library.add({
      .schema =
          "npu::npu_dequant_swiglu_quant(Tensor x, *, Tensor? weight_scale=None, Tensor? activation_scale=None, "
          "Tensor? bias=None, Tensor? quant_scale=None, Tensor? quant_offset=None, Tensor? group_index=None, bool "
          "activate_left=False, int quant_mode=0, int? dst_type=None, int? round_mode=None, int? activate_dim=None, "
          "int swiglu_mode=0, float clamp_limit=7.0, float glu_alpha=1.702, float glu_bias=1.0) -> (Tensor, Tensor)",
      .kernel = parts(&dequant_swiglu_quant),
      .definition = "Dequantisation, SwiGLU and quantisation in one. An int32 x is dequantised as by npu_dequant_bias, "
                    "and a floating one is taken as it is. SwiGLU splits it along activate_dim (the last by default): "
                    "with swiglu_mode 0, u = silu(a) * b, where a is the second half, or the first with activate_left. "
                    "swiglu_mode 1 and 2 are npu_clipped_swiglu with clamp_limit, glu_alpha and glu_bias, on even and "
                    "odd elements (1) or on the same halves as mode 0 (2). With quant_mode 0 (static), y = round(u / "
                    "quant_scale + quant_offset) and scale is 0; with quant_mode 1 (dynamic), u * quant_scale is "
                    "quantised per token as by npu_dynamic_quant, without quant_offset. group_index [E] counts the "
                    "rows of x [tokens, N] of each expert, which have their own row of weight_scale, bias, quant_scale "
                    "and quant_offset. Results: y in dst_type (int8 by default) and scale in float32, which lacks the "
                    "last dimension of y.",
  });
  library.add({
      .schema = "npu::npu_swiglu_quant(Tensor x, *, Tensor? smooth_scales=None, Tensor? offsets=None, Tensor? "
                "group_index=None, bool activate_left=False, int quant_mode=0, int group_list_type=0, ScalarType? "
                "dst_type=None) -> (Tensor, Tensor)",
      .kernel = parts(&swiglu_quant),
      .definition = "SwiGLU and quantisation in one. u = silu(a) * b, where a is the second half of the last dimension "
                    "of x, or the first with activate_left. With quant_mode 0 (static), y = round(u * smooth_scales + "
                    "offsets) and scale is 0; with quant_mode 1 (dynamic), u * smooth_scales is quantised per token as "
                    "by npu_dynamic_quant, without offsets. The dynamic scale, max / 127 for int8, is replaced by its "
                    "reciprocal on 910B (get_soc_version() of 220 to 225). group_index [E] gives the rows of each "
                    "expert, which have their own row of smooth_scales and offsets: cumulative ends with "
                    "group_list_type 0, counts with 1. Results: y in dst_type (int8 by default) and scale in float32, "
                    "which lacks the last dimension of y.",
  });
  library.add({
      .schema = "npu::npu_gelu_quant(Tensor input, *, Tensor? input_scale=None, Tensor? input_offset=None, str "
                "approximate='none', str quant_mode='dynamic', int? dst_type=None, str round_mode='rint') -> (Tensor, "
                "Tensor)",
      .kernel = parts(&gelu_quant),
      .definition = "GELU and quantisation in one: u = gelu(input), exact with approximate 'none' or by tanh with "
                    "'tanh'. With quant_mode 'static', y = round(u * input_scale + input_offset), and the second "
                    "result is empty. With 'dynamic', u * input_scale (u without input_scale) is quantised per token "
                    "as by npu_dynamic_quant, without input_offset; the second result is the scale in float32, which "
                    "lacks the last dimension of input. y is in dst_type (int8 by default). round_mode must be 'rint', "
                    "which rounds half to even.",
  });
}

}  // namespace npugraph::npu_ops
