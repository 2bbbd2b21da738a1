// SPDX-License-Identifier: Apache-2.0
// Blocks of values with a scale of their own: powers of two (OCP Microscaling Formats specification, v1.0), or floats.
#include <tuple>
#include <vector>

#include "torch/npu_ops/families.h"
#include "torch/npu_ops/gates.h"
#include "torch/npu_ops/microscaling.h"

namespace npugraph::npu_ops {
namespace {

using Code = std::optional<int64_t>;

// What the host has of the ways to round and to find scales.
struct Options {
  c10::string_view round_mode;
  int64_t scale_alg = 0, block_size = 32;
  double dst_type_max = 0, max_low_bound = 0;
};

void check_options(const char* op, const Options& given) {
  TORCH_CHECK(given.round_mode == "rint", op, ": round_mode is \"", given.round_mode, "\", allowed is \"rint\"");
  TORCH_CHECK(given.scale_alg == 0, op, ": scale_alg is ", given.scale_alg,
              ", allowed is 0 (as the OCP specification has it)");
  TORCH_CHECK(given.block_size == 32, op, ": block_size is ", given.block_size, ", allowed is 32");
  TORCH_CHECK(given.dst_type_max == 0 && given.max_low_bound == 0, op, ": dst_type_max is ", given.dst_type_max,
              " and max_low_bound ", given.max_low_bound, ", allowed are 0");
}

std::tuple<Tensor, Tensor> dynamic_mx_quant(const Tensor& input, int64_t axis, c10::string_view round_mode,
                                            int64_t dst_type, int64_t block_size, Code scale_alg, double dst_type_max,
                                            double max_low_bound) {
  constexpr const char* kOp = "npu_dynamic_mx_quant";
  check_floating(kOp, "input", input);
  check_options(kOp, {round_mode, scale_alg.value_or(0), block_size, dst_type_max, max_low_bound});
  const Blocks out = to_blocks(kOp, input, axis, element_type(kOp, "dst_type", dst_type));
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
  const Blocks last = to_blocks(kOp, input, -1, type), before = to_blocks(kOp, input, -2, type);
  return {last.values, last.scale, before.values, before.scale};
}

Tensor anti_mx_quant(const Tensor& x, const Tensor& mxscale, Code axis, Code dst_type, Code src_type) {
  constexpr const char* kOp = "npu_anti_mx_quant";
  const at::ScalarType type = type_of_code(kOp, "dst_type", dst_type, at::kBFloat16);
  TORCH_CHECK(type == at::kHalf || type == at::kBFloat16 || type == at::kFloat, kOp, ": dst_type is ", type,
              ", allowed are Half, BFloat16 and Float");
  const Code source = at::isFloatingType(x.scalar_type()) ? std::nullopt : Code(src_type.value_or(292));
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
  const Blocks blocks = to_blocks(kOp, out, axis, element_type(kOp, "dst_type", dst_type));
  return {blocks.values, blocks.scale};
}

// The largest |value| of each block of rows by columns of the last two dimensions, [..., blocks, blocks].
Tensor largest_of_blocks(const Tensor& exact, int64_t rows, int64_t columns) {
  const c10::SymInt height = (exact.sym_size(-2) + rows - 1) / rows,
                    width = (exact.sym_size(-1) + columns - 1) / columns;
  const Tensor wider = zero_padded(exact.abs(), exact.dim() - 1, width * columns);
  const Tensor whole = zero_padded(wider, exact.dim() - 2, height * rows);
  return whole.unflatten_symint(-1, {width, columns}).unflatten_symint(-3, {height, rows}).amax({-3, -1});
}

std::tuple<Tensor, Tensor> dynamic_block_quant(const Tensor& x, double min_scale, c10::string_view round_mode,
                                               int64_t dst_type, int64_t row_block_size, int64_t col_block_size,
                                               double dst_type_max) {
  constexpr const char* kOp = "npu_dynamic_block_quant";
  check_floating(kOp, "x", x);
  check_dims(kOp, "x", x, 2, 3);
  check_options(kOp, {.round_mode = round_mode});
  TORCH_CHECK(row_block_size > 0 && col_block_size > 0, kOp, ": blocks are of ", row_block_size, " by ", col_block_size,
              " values, allowed are positive sizes");
  const QuantType type = quant_type(kOp, "dst_type", dst_type);
  const Tensor exact = wide(x);
  const Tensor top = largest_of_blocks(exact, row_block_size, col_block_size);
  const Tensor scale = (top / (dst_type_max == 0 ? type.high : dst_type_max)).clamp_min(min_scale);
  const Tensor divisor = scale.masked_fill(scale == 0, 1);
  return {quantised(kOp, exact / spread_blocks(divisor, x, row_block_size, col_block_size), type),
          scale.to(at::kFloat)};
}

// Values in the shape of `x`, two of float4 in a byte.
Tensor elements_like(const char* op, const Tensor& x, int64_t dst_type) {
  const ElementType type = element_type(op, "dst_type", dst_type);
  std::vector<c10::SymInt> size = x.sym_sizes().vec();
  if (type.storage == at::kByte) size.back() = size.back() / 2;
  return x.new_empty_symint(size, x.options().dtype(type.storage));
}

// Scales of blocks of 32 along `axis`.
Tensor scales_like(const Tensor& x, int64_t axis) {
  std::vector<c10::SymInt> size = x.sym_sizes().vec();
  c10::SymInt& of_axis = size[at::maybe_wrap_dim(axis, x.dim())];
  of_axis = (of_axis + 63) / 64;
  size.emplace_back(2);
  return x.new_empty_symint(size, x.options().dtype(at::kFloat8_e8m0fnu));
}

std::tuple<Tensor, Tensor, Tensor> dynamic_block_mx_quant_meta(const Tensor& input, c10::string_view, int64_t dst_type,
                                                               int64_t, double) {
  const Tensor values = elements_like("npu_dynamic_block_mx_quant", input, dst_type);
  return {values, scales_like(input, -1), scales_like(input, -2)};
}

// Groups of rows begin with a block of their own, for which there is one row of scales more for each group.
std::tuple<Tensor, Tensor> grouped_mx_meta(const Tensor& x, const Tensor& group_index, c10::string_view,
                                           int64_t dst_type, int64_t blocksize, Code, std::optional<double>) {
  constexpr const char* kOp = "npu_grouped_dynamic_mx_quant";
  check_dims(kOp, "x", x, 2, 2);
  check_options(kOp, {.round_mode = "rint", .block_size = blocksize});
  const c10::SymInt pairs = x.sym_size(0) / 64 + group_index.sym_size(0);
  return {elements_like(kOp, x, dst_type),
          x.new_empty_symint({pairs, x.sym_size(1), 2}, x.options().dtype(at::kFloat8_e8m0fnu))};
}

std::tuple<Tensor, Tensor> grouped_block_meta(const Tensor& x, const Tensor& group_list, double, c10::string_view,
                                              int64_t dst_type, int64_t row_block_size, int64_t col_block_size, int64_t,
                                              double) {
  constexpr const char* kOp = "npu_grouped_dynamic_block_quant";
  check_dims(kOp, "x", x, 2, 2);
  const c10::SymInt rows = x.sym_size(0) / row_block_size + group_list.sym_size(0);
  const c10::SymInt columns = (x.sym_size(1) + col_block_size - 1) / col_block_size;
  return {x.new_empty_symint(x.sym_sizes(), x.options().dtype(quant_type(kOp, "dst_type", dst_type).storage)),
          x.new_empty_symint({rows, columns}, x.options().dtype(at::kFloat))};
}

std::tuple<Tensor, Tensor, Tensor> dual_level_meta(const Tensor& input, const OptionalTensor&, c10::string_view) {
  std::vector<c10::SymInt> outer = input.sym_sizes().vec();
  outer.back() = (outer.back() + 511) / 512;
  const Tensor values = elements_like("npu_dynamic_dual_level_mx_quant", input, 296);
  return {values, input.new_empty_symint(outer, input.options().dtype(at::kFloat)), scales_like(input, -1)};
}

}  // namespace

void define_mx_quant(Definitions& npu) {
  npu.composed(
      "npu_dynamic_mx_quant", &dynamic_mx_quant,
      "blocks of 32 along axis with a scale of 2^(floor(log2 max) - exponent of the largest value of dst_type), "
      "float8_e8m0fnu, in pairs of blocks; float4 values fill bytes (OCP Microscaling v1.0)");
  npu.composed("npu_dynamic_mx_quant_with_dual_axis", &dynamic_mx_quant_with_dual_axis,
               "npu_dynamic_mx_quant along the last dimension and along the one before");
  npu.composed("npu_anti_mx_quant", &anti_mx_quant,
               "x times the scale of its block along axis (OCP Microscaling v1.0)");
  npu.composed("npu_swiglu_mx_quant", &swiglu_mx_quant, "npu_dynamic_mx_quant of the halves of x, gated");
  npu.composed(
      "npu_dynamic_block_quant", &dynamic_block_quant,
      "blocks of rows and columns; scale = max |x| / largest value of dst_type, at least min_scale; y = x / scale");
  npu.shaped("npu_dynamic_block_mx_quant", &dynamic_block_mx_quant_meta);
  npu.shaped("npu_dynamic_dual_level_mx_quant", &dual_level_meta);
  npu.shaped("npu_grouped_dynamic_block_quant", &grouped_block_meta);
  npu.shaped("npu_grouped_dynamic_mx_quant", &grouped_mx_meta);
}

}  // namespace npugraph::npu_ops
