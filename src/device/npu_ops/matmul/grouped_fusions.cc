// SPDX-License-Identifier: Apache-2.0
// Products of groups of rows, fused with the operations after them.
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/matmul/grouped_products.h"
#include "device/npu_ops/parts/parts.h"

namespace npugraph::npu_ops {
namespace {

TensorsOf listed(const OptionalTensor& tensor) {
  return tensor && tensor->sym_numel() > 0 ? TensorsOf({*tensor}) : std::nullopt;
}

// For each row of values, the row of `table` [groups, n] for its group; ones for rows of no segment.
Tensor rows_of_groups(const Tensor& table, const std::vector<Segment>& segments, const Tensor& values) {
  Tensor out = at::ones_like(values);
  for (const auto& [group, begin, end] : segments) out.slice(0, begin, end).copy_(wide(table.select(0, group)));
  return out;
}

struct SwigluQuant {
  const char* op;
  GroupedProduct product;
  OptionalTensor smooth_scale;
  int64_t group_list_type = 0;
  std::optional<ElementType> blocks =
      {};  // of blocks of 32 values with one scale, instead of int8 with one for each row
};

Quantised swiglu_quantised(const SwigluQuant& in, const Tensor& x, const Tensor& x_scale, const Tensor& group_list) {
  const auto segments = segments_of(in.op, group_list, in.group_list_type, x.size(0));
  const Tensor product = product_of_rows(in.op, in.product, x, segments, x_scale);
  Tensor out = gated(in.op, product, -1, {.left = true});
  if (in.smooth_scale) out = out * rows_of_groups(*in.smooth_scale, segments, out);
  if (in.blocks) {
    const Blocks of_rows = to_blocks(in.op, out, -1, *in.blocks);
    return {of_rows.values, of_rows.scale};
  }
  return dynamically_quantised(in.op, out, -1, QuantType{});
}

Quantised swiglu_shapes(const SwigluQuant& in, const Tensor& x) {
  const c10::SymInt columns = in.product.columns(in.op, x);
  if (in.blocks) {
    const Tensor gated = x.new_empty_symint({x.sym_size(0), columns / 2}, x.options().dtype(at::kFloat));
    const Blocks of_rows = to_blocks(in.op, gated, -1, *in.blocks);
    return {of_rows.values, of_rows.scale};
  }
  return {x.new_empty_symint({x.sym_size(0), columns / 2}, x.options().dtype(at::kChar)),
          x.new_empty_symint({x.sym_size(0)}, x.options().dtype(at::kFloat))};
}

SwigluQuant read_first(const Tensor& x, const Tensor& weight, const Tensor& weight_scale, const OptionalTensor& bias) {
  constexpr const char* kOp = "npu_grouped_matmul_swiglu_quant";
  check_type(kOp, "x", x, {at::kChar});
  const Tensor plain = weight.dim() == 5 ? without_fractals(weight) : weight;
  check_dims(kOp, "weight", plain, 3, 3);
  return {kOp, {.weight = {plain}, .bias = listed(bias), .scale = listed(weight_scale), .type = at::kFloat}, {}};
}

std::tuple<Tensor, Tensor, Tensor> grouped_swiglu_quant(const Tensor& x, const Tensor& weight, const Tensor& group_list,
                                                        const Tensor& weight_scale, const Tensor& x_scale,
                                                        const OptionalTensor& bias, const OptionalTensor&) {
  const Quantised out = swiglu_quantised(read_first(x, weight, weight_scale, bias), x, x_scale, group_list);
  return {out.values, out.scale, at::zeros({}, out.scale.options())};
}

std::tuple<Tensor, Tensor, Tensor> grouped_swiglu_quant_meta(const Tensor& x, const Tensor& weight, const Tensor&,
                                                             const Tensor& weight_scale, const Tensor&,
                                                             const OptionalTensor& bias, const OptionalTensor&) {
  const Quantised out = swiglu_shapes(read_first(x, weight, weight_scale, bias), x);
  return {out.values, out.scale, at::empty({}, out.scale.options())};
}

SwigluQuant read_second(at::TensorList weight, at::TensorList weight_scale, const OptionalTensor& smooth_scale,
                        const OptionalTensor& bias, OptionalInt quant_mode, OptionalInt quant_dtype,
                        OptionalInt group_list_type, OptionalInt x_dtype, OptionalInt weight_dtype,
                        OptionalInt weight_scale_dtype, OptionalInt x_scale_dtype) {
  constexpr const char* kOp = "npu_grouped_matmul_swiglu_quant_v2";
  TORCH_CHECK(!weight.empty(), kOp, ": weight has 0 tensors, allowed is at least one");
  constexpr int64_t kByRows = 0, kByBlocks = 2;
  const int64_t mode = quant_mode.value_or(kByRows);
  check_choice(kOp, "quant_mode", mode, {kByRows, kByBlocks});
  const at::ScalarType type = type_of_code(kOp, "quant_dtype", quant_dtype, at::kChar);
  TORCH_CHECK(mode == kByBlocks || type == at::kChar, kOp, ": quant_dtype is ", type,
              ", allowed with quant_mode 0 is Char");
  std::optional<ElementType> blocks;
  if (mode == kByBlocks) blocks = element_type(kOp, "quant_dtype", quant_dtype.value_or(0));
  return {kOp,
          {.weight = without_fractals(weight),
           .bias = listed(bias),
           .scale = weight_scale.vec(),
           .x_dtype = x_dtype,
           .weight_dtype = weight_dtype,
           .scale_dtype = weight_scale_dtype,
           .per_token_scale_dtype = x_scale_dtype,
           .type = at::kFloat},
          smooth_scale,
          group_list_type.value_or(0),
          blocks};
}

std::tuple<Tensor, Tensor> grouped_swiglu_quant_v2(const Tensor& x, at::TensorList weight, at::TensorList weight_scale,
                                                   const Tensor& x_scale, const Tensor& group_list,
                                                   const OptionalTensor& smooth_scale, std::optional<at::TensorList>,
                                                   const OptionalTensor& bias, OptionalInt, OptionalInt,
                                                   OptionalInt quant_mode, OptionalInt quant_dtype,
                                                   OptionalInt group_list_type, at::OptionalIntArrayRef,
                                                   OptionalInt x_dtype, OptionalInt weight_dtype,
                                                   OptionalInt weight_scale_dtype, OptionalInt x_scale_dtype) {
  const SwigluQuant in = read_second(weight, weight_scale, smooth_scale, bias, quant_mode, quant_dtype, group_list_type,
                                     x_dtype, weight_dtype, weight_scale_dtype, x_scale_dtype);
  const Quantised out = swiglu_quantised(in, x, x_scale, group_list);
  return {out.values, out.scale};
}

std::tuple<Tensor, Tensor> grouped_swiglu_quant_v2_meta(
    const Tensor& x, at::TensorList weight, at::TensorList weight_scale, const Tensor&, const Tensor&,
    const OptionalTensor& smooth_scale, std::optional<at::TensorList>, const OptionalTensor& bias, OptionalInt,
    OptionalInt, OptionalInt quant_mode, OptionalInt quant_dtype, OptionalInt group_list_type, at::OptionalIntArrayRef,
    OptionalInt x_dtype, OptionalInt weight_dtype, OptionalInt weight_scale_dtype, OptionalInt x_scale_dtype) {
  const SwigluQuant in = read_second(weight, weight_scale, smooth_scale, bias, quant_mode, quant_dtype, group_list_type,
                                     x_dtype, weight_dtype, weight_scale_dtype, x_scale_dtype);
  const Quantised out = swiglu_shapes(in, x);
  return {out.values, out.scale};
}

constexpr const char* kFinalize = "npu_grouped_matmul_finalize_routing";

struct FinalizeRouting {
  GroupedProduct product;
  at::ScalarType type;
};

FinalizeRouting read_routing(const Tensor& x, const Tensor& w, const OptionalTensor& scale, const OptionalTensor& bias,
                             std::optional<at::ScalarType> dtype, OptionalInt x_dtype, OptionalInt w_dtype,
                             OptionalInt scale_dtype, OptionalInt pertoken_scale_dtype) {
  check_dims(kFinalize, "x", x, 2, 2);
  const Tensor plain = w.dim() == 5 ? without_fractals(w) : w;
  check_dims(kFinalize, "w", plain, 3, 3);
  const at::ScalarType type = dtype.value_or(at::kFloat);
  TORCH_CHECK(type == at::kFloat || type == at::kHalf || type == at::kBFloat16, kFinalize, ": dtype is ", type,
              ", allowed are Float, Half and BFloat16");
  return {{.weight = {plain},
           .bias = listed(bias),
           .scale = listed(scale),
           .x_dtype = x_dtype,
           .weight_dtype = w_dtype,
           .scale_dtype = scale_dtype,
           .per_token_scale_dtype = pertoken_scale_dtype,
           .type = at::kFloat},
          type};
}

Tensor finalize_routing(const Tensor& x, const Tensor& w, const Tensor& group_list, const OptionalTensor& scale,
                        const OptionalTensor& bias, const OptionalTensor&, const OptionalTensor& pertoken_scale,
                        const OptionalTensor& shared_input, const OptionalTensor& logit,
                        const OptionalTensor& row_index, std::optional<at::ScalarType> dtype,
                        std::optional<double> shared_input_weight, OptionalInt shared_input_offset,
                        OptionalInt output_bs, OptionalInt group_list_type, at::OptionalIntArrayRef,
                        OptionalInt x_dtype, OptionalInt w_dtype, OptionalInt scale_dtype,
                        OptionalInt pertoken_scale_dtype) {
  const FinalizeRouting in =
      read_routing(x, w, scale, bias, dtype, x_dtype, w_dtype, scale_dtype, pertoken_scale_dtype);
  const auto segments = segments_of(kFinalize, group_list, group_list_type.value_or(1), x.size(0));
  Tensor rows = product_of_rows(kFinalize, in.product, x, segments, pertoken_scale);
  if (logit) rows = rows * wide(*logit).unsqueeze(-1);
  const int64_t batch = output_bs.value_or(0) > 0 ? *output_bs : x.size(0);
  Tensor out = at::zeros({batch, rows.size(1)}, rows.options());
  const int64_t used = segments.empty() ? 0 : segments.back().end;
  const Tensor places = row_index ? row_index->to(at::kLong) : at::arange(x.size(0), x.options().dtype(at::kLong));
  out.index_add_(0, places.slice(0, 0, used), rows.slice(0, 0, used));
  if (!shared_input) return out.to(in.type);
  const int64_t begin = shared_input_offset.value_or(0), end = begin + shared_input->size(0);
  TORCH_CHECK(begin >= 0 && end <= batch, kFinalize, ": shared_input is for rows ", begin, " to ", end,
              ", and there are ", batch);
  out.slice(0, begin, end).add_(wide(*shared_input), shared_input_weight.value_or(1.0));
  return out.to(in.type);
}

Tensor finalize_routing_meta(const Tensor& x, const Tensor& w, const Tensor&, const OptionalTensor& scale,
                             const OptionalTensor& bias, const OptionalTensor&, const OptionalTensor&,
                             const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                             std::optional<at::ScalarType> dtype, std::optional<double>, OptionalInt,
                             OptionalInt output_bs, OptionalInt, at::OptionalIntArrayRef, OptionalInt x_dtype,
                             OptionalInt w_dtype, OptionalInt scale_dtype, OptionalInt pertoken_scale_dtype) {
  const FinalizeRouting in =
      read_routing(x, w, scale, bias, dtype, x_dtype, w_dtype, scale_dtype, pertoken_scale_dtype);
  const c10::SymInt batch = output_bs.value_or(0) > 0 ? c10::SymInt(*output_bs) : x.sym_size(0);
  return x.new_empty_symint({batch, in.product.columns(kFinalize, x)}, x.options().dtype(in.type));
}

// Adds x_g^T @ weight_g, over the rows of each group g, to input, [groups, m, n] or [groups * m, n].
Tensor& add_products(const char* op, Tensor& input, const Tensor& x, const Tensor& weight, const Tensor& group_list,
                     bool transpose_x, bool transpose_weight, int64_t group_type, OptionalInt group_list_type) {
  TORCH_CHECK(group_type == 2, op, ": group_type is ", group_type, ", allowed is 2 (the size to sum over)");
  check_dims(op, "x", x, 2, 2);
  check_dims(op, "weight", weight, 2, 2);
  const Tensor left = transpose_x ? x.t() : x, right = transpose_weight ? weight.t() : weight;
  const auto segments = segments_of(op, group_list, group_list_type.value_or(0), right.size(0));
  const Tensor all = input.view({group_list.size(0), left.size(0), right.size(1)});
  for (const auto& [group, begin, end] : segments)
    all.select(0, group).add_(at::matmul(wide(left.slice(1, begin, end)), wide(right.slice(0, begin, end))));
  return input;
}

Tensor& grouped_matmul_add_(Tensor& input, const Tensor& x, const Tensor& weight, const Tensor& group_list,
                            bool transpose_x, bool transpose_weight, int64_t group_type, OptionalInt group_list_type) {
  return add_products("npu_grouped_matmul_add_", input, x, weight, group_list, transpose_x, transpose_weight,
                      group_type, group_list_type);
}

Tensor grouped_matmul_add(const Tensor& input, const Tensor& x, const Tensor& weight, const Tensor& group_list,
                          bool transpose_x, bool transpose_weight, int64_t group_type, OptionalInt group_list_type) {
  Tensor out = input.clone(at::MemoryFormat::Contiguous);
  return add_products("npu_grouped_matmul_add", out, x, weight, group_list, transpose_x, transpose_weight, group_type,
                      group_list_type);
}

Tensor& added_meta_(Tensor& input, const Tensor&, const Tensor&, const Tensor&, bool, bool, int64_t, OptionalInt) {
  return input;
}

Tensor added_meta(const Tensor& input, const Tensor&, const Tensor&, const Tensor&, bool, bool, int64_t, OptionalInt) {
  return input.new_empty_symint(input.sym_sizes());
}

Tensor quant_dequant(const Tensor& x, const Tensor& quantized_weight, const Tensor& weight_scale,
                     const Tensor& group_list, const OptionalTensor& bias, const OptionalTensor& x_scale,
                     const OptionalTensor& x_offset, const OptionalTensor& smooth_scale,
                     std::optional<c10::string_view> quant_mode) {
  constexpr const char* kOp = "npu_quant_grouped_matmul_dequant";
  check_dims(kOp, "x", x, 2, 2);
  check_dims(kOp, "quantized_weight", quantized_weight, 3, 3);
  const auto segments = segments_of(kOp, group_list, 0, x.size(0));
  const bool by_group = smooth_scale && smooth_scale->dim() == 2;
  const Tensor smooth = by_group ? x * rows_of_groups(*smooth_scale, segments, wide(x)) : x;
  const OptionalTensor shared = by_group ? std::nullopt : smooth_scale;
  const Quantised left = quantised_operand(kOp, smooth, {x_scale, x_offset, shared, quant_mode.value_or("pertoken")});
  const GroupedProduct product{.weight = {quantized_weight.transpose(1, 2)},
                               .bias = listed(bias),
                               .scale = listed(weight_scale),
                               .type = x.scalar_type()};
  return product_of_rows(kOp, product, left.values, segments, left.scale.expand({x.size(0)}));
}

Tensor quant_dequant_meta(const Tensor& x, const Tensor& quantized_weight, const Tensor&, const Tensor&,
                          const OptionalTensor&, const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                          std::optional<c10::string_view>) {
  return x.new_empty_symint({x.sym_size(0), quantized_weight.sym_size(1)});
}

// The scale of `group` from [groups, ...], shaped to broadcast over the rows or the columns of its
// product; 1 if it is not given.
Tensor group_scale(const char* op, const OptionalTensor& scale, OptionalInt code, int64_t group, bool is_of_rows) {
  if (!scale) return at::ones({});
  TORCH_CHECK(!is_block_scale(*scale, code), op, ": a scale is of type float8_e8m0fnu, allowed is Float");
  const Tensor values = wide(*scale).select(0, group);
  return is_of_rows && values.dim() == 1 ? values.unsqueeze(-1) : values;
}

Tensor& add_quant_products(const char* op, Tensor& input, const Tensor& x1, const Tensor& x2, const Tensor& x2_scale,
                           const Tensor& group_list, const OptionalTensor& x1_scale, OptionalInt group_list_type,
                           OptionalInt x1_dtype, OptionalInt x2_dtype, OptionalInt x1_scale_dtype,
                           OptionalInt x2_scale_dtype) {
  check_dims(op, "x1", x1, 2, 2);
  check_dims(op, "x2", x2, 2, 2);
  const Tensor left = read_as(op, "x1", x1, x1_dtype).to(at::kFloat);
  const Tensor right = read_as(op, "x2", x2, x2_dtype).to(at::kFloat);
  const Tensor all = input.view({group_list.size(0), left.size(0), right.size(1)});
  for (const auto& [group, begin, end] : segments_of(op, group_list, group_list_type.value_or(0), right.size(0))) {
    const Tensor product = at::matmul(left.slice(1, begin, end), right.slice(0, begin, end));
    const Tensor rows = group_scale(op, x1_scale, x1_scale_dtype, group, true);
    all.select(0, group).add_(product * rows * group_scale(op, x2_scale, x2_scale_dtype, group, false));
  }
  return input;
}

Tensor& add_quant_gmm_(Tensor& input, const Tensor& x1, const Tensor& x2, const Tensor& x2_scale,
                       const Tensor& group_list, const OptionalTensor& x1_scale, OptionalInt group_list_type,
                       at::OptionalIntArrayRef, OptionalInt x1_dtype, OptionalInt x2_dtype, OptionalInt x1_scale_dtype,
                       OptionalInt x2_scale_dtype) {
  return add_quant_products("npu_add_quant_gmm_", input, x1, x2, x2_scale, group_list, x1_scale, group_list_type,
                            x1_dtype, x2_dtype, x1_scale_dtype, x2_scale_dtype);
}

Tensor add_quant_gmm(const Tensor& input, const Tensor& x1, const Tensor& x2, const Tensor& x2_scale,
                     const Tensor& group_list, const OptionalTensor& x1_scale, OptionalInt group_list_type,
                     at::OptionalIntArrayRef, OptionalInt x1_dtype, OptionalInt x2_dtype, OptionalInt x1_scale_dtype,
                     OptionalInt x2_scale_dtype) {
  Tensor out = input.clone(at::MemoryFormat::Contiguous);
  return add_quant_products("npu_add_quant_gmm", out, x1, x2, x2_scale, group_list, x1_scale, group_list_type, x1_dtype,
                            x2_dtype, x1_scale_dtype, x2_scale_dtype);
}

Tensor& add_quant_gmm_meta_(Tensor& input, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                            const OptionalTensor&, OptionalInt, at::OptionalIntArrayRef, OptionalInt, OptionalInt,
                            OptionalInt, OptionalInt) {
  return input;
}

Tensor add_quant_gmm_meta(const Tensor& input, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                          const OptionalTensor&, OptionalInt, at::OptionalIntArrayRef, OptionalInt, OptionalInt,
                          OptionalInt, OptionalInt) {
  return input.new_empty_symint(input.sym_sizes());
}

}  // namespace

void define_grouped_fusions(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_grouped_matmul_swiglu_quant(Tensor x, Tensor weight, Tensor group_list, Tensor weight_scale, "
                "Tensor x_scale, *, Tensor? bias=None, Tensor? offset=None) -> (Tensor, Tensor, Tensor)",
      .kernel = whole(&grouped_swiglu_quant, &grouped_swiglu_quant_meta),
      .definition = "Grouped GEMM of int8 values, followed by SwiGLU and dynamic quantisation per token: y = x[rows "
                    "of group g] @ weight[g] * weight_scale[g] * x_scale in float32, then silu(first half) * second "
                    "half of its columns, then npu_dynamic_quant to int8. x is [M, K], weight [E, K, N], or its "
                    "memory in NZ layout, [E, N / n0, K / k0, k0, n0], weight_scale [E, N] and x_scale [M]. "
                    "group_list, [E], has the cumulative ends of the groups. bias is that of npu_grouped_matmul; "
                    "offset is ignored. Results: the values, [M, N / 2] in int8, their scales, [M] in float32, and a "
                    "scalar 0.",
  });
  library.add({
      .schema = "npu::npu_grouped_matmul_swiglu_quant_v2(Tensor x, Tensor[] weight, Tensor[] weight_scale, Tensor "
                "x_scale, Tensor group_list, *, Tensor? smooth_scale=None, Tensor[]? weight_assist_matrix=None, "
                "Tensor? bias=None, int? dequant_mode=0, int? dequant_dtype=6, int? quant_mode=0, int? quant_dtype=1, "
                "int? group_list_type=0, int[]? tuning_config=None, int? x_dtype=None, int? weight_dtype=None, int? "
                "weight_scale_dtype=None, int? x_scale_dtype=None) -> (Tensor, Tensor)",
      .kernel = whole(&grouped_swiglu_quant_v2, &grouped_swiglu_quant_v2_meta),
      .definition = "npu_grouped_matmul_swiglu_quant with weight and weight_scale as lists of one stacked tensor or "
                    "one for each group, and operands of all types of npu_grouped_matmul. group_list_type 0 are "
                    "cumulative ends, 1 counts, 2 pairs of group and count. smooth_scale, [E, N / 2], multiplies the "
                    "values before they are quantised. quant_mode 0 quantises rows to int8; 2 is npu_dynamic_mx_quant "
                    "to the type quant_dtype. weight_assist_matrix, dequant_mode, dequant_dtype and tuning_config are "
                    "ignored. Results: the values and their scales.",
  });
  library.add({
      .schema =
          "npu::npu_grouped_matmul_finalize_routing(Tensor x, Tensor w, Tensor group_list, *, Tensor? scale=None, "
          "Tensor? bias=None, Tensor? offset=None, Tensor? pertoken_scale=None, Tensor? shared_input=None, Tensor? "
          "logit=None, Tensor? row_index=None, ScalarType? dtype=None, float? shared_input_weight=1.0, int? "
          "shared_input_offset=0, int? output_bs=0, int? group_list_type=1, int[]? tuning_config=None, int? "
          "x_dtype=None, int? w_dtype=None, int? scale_dtype=None, int? pertoken_scale_dtype=None) -> Tensor",
      .kernel = whole(&finalize_routing, &finalize_routing_meta),
      .definition = "Grouped GEMM of experts, whose rows are then combined to tokens, as at the end of a mixture of "
                    "experts: row i of the products of groups of rows of x, times logit[i], is added to row "
                    "row_index[i] of the result, and shared_input * shared_input_weight to the rows from "
                    "shared_input_offset on. x is [M, K], w [E, K, N] (also in NZ layout), scale, pertoken_scale and "
                    "bias those of npu_grouped_matmul, and logit and row_index [M]; row_index defaults to i. "
                    "group_list has counts by default, cumulative ends with group_list_type 0, pairs of group and "
                    "count with 2. offset and tuning_config are ignored. The result is [output_bs, N], or [M, N] if "
                    "output_bs is 0, in dtype: float32 (default), float16 or bfloat16.",
  });
  library.add({
      .schema = "npu::npu_grouped_matmul_add(Tensor input, Tensor x, Tensor weight, Tensor group_list, *, bool "
                "transpose_x=True, bool transpose_weight=False, int group_type=2, int? group_list_type=0) -> Tensor",
      .kernel = whole(&grouped_matmul_add, &added_meta),
      .definition = "Adds a product per group to input, such as the gradients of the weights of experts: input[g] + "
                    "x[rows of g].T @ weight[rows of g]. x is [T, M], or [M, T] if transpose_x is False; weight is "
                    "[T, N], or [N, T] if transpose_weight is True; input is [G, M, N] or [G * M, N]. group_list, "
                    "[G], splits T by cumulative ends (group_list_type 0), counts (1), or pairs of group and count "
                    "(2). group_type must be 2. Products are computed in float32; the result has the shape and type "
                    "of input.",
  });
  library.add({
      .schema =
          "npu::npu_grouped_matmul_add_(Tensor(a!) input, Tensor x, Tensor weight, Tensor group_list, *, bool "
          "transpose_x=True, bool transpose_weight=False, int group_type=2, int? group_list_type=0) -> Tensor(a!)",
      .kernel = whole(&grouped_matmul_add_, &added_meta_),
      .definition = "npu_grouped_matmul_add in place, in input.",
  });
  library.add({
      .schema = "npu::npu_quant_grouped_matmul_dequant(Tensor x, Tensor quantized_weight, Tensor weight_scale, Tensor "
                "group_list, *, Tensor? bias=None, Tensor? x_scale=None, Tensor? x_offset=None, Tensor? "
                "smooth_scale=None, str? quant_mode='pertoken') -> Tensor",
      .kernel = whole(&quant_dequant, &quant_dequant_meta),
      .definition = "npu_quant_matmul_dequant of groups of rows of x, each with its own weight. x is [M, K], "
                    "quantized_weight [E, N, K] in int8, weight_scale and bias [E, N], and group_list, [E], has the "
                    "cumulative ends of the groups. smooth_scale is [K], or [E, K] for one row per group. Rows of no "
                    "group become zeros. The result is [M, N] in the type of x.",
  });
  library.add({
      .schema = "npu::npu_add_quant_gmm(Tensor input, Tensor x1, Tensor x2, Tensor x2_scale, Tensor group_list, *, "
                "Tensor? x1_scale=None, int? group_list_type=0, int[]? group_sizes=None, int? x1_dtype=None, int? "
                "x2_dtype=None, int? x1_scale_dtype=None, int? x2_scale_dtype=None) -> Tensor",
      .kernel = whole(&add_quant_gmm, &add_quant_gmm_meta),
      .definition = "Adds a product of quantised matrices per group to input: input[g] + (x1[:, g] @ x2[g]) * "
                    "x2_scale[g] * x1_scale[g], where g are the columns of x1, [M, T], and rows of x2, [T, N], of a "
                    "group. input is [G, M, N] or [G * M, N]; x1_scale is [G] or [G, M], and x2_scale [G] or [G, N], "
                    "both in a plain floating type. group_list, [G], splits T by cumulative ends (group_list_type 0), "
                    "counts (1), or pairs of group and count (2). x1_dtype and x2_dtype say what bytes hold, such as "
                    "float8 or hifloat8; group_sizes is ignored. The result has the shape and type of input.",
  });
  library.add({
      .schema = "npu::npu_add_quant_gmm_(Tensor(a!) input, Tensor x1, Tensor x2, Tensor x2_scale, Tensor group_list, "
                "*, Tensor? x1_scale=None, int? group_list_type=0, int[]? group_sizes=None, int? x1_dtype=None, int? "
                "x2_dtype=None, int? x1_scale_dtype=None, int? x2_scale_dtype=None) -> Tensor(a!)",
      .kernel = whole(&add_quant_gmm_, &add_quant_gmm_meta_),
      .definition = "npu_add_quant_gmm in place, in input.",
  });
}

}  // namespace npugraph::npu_ops
