// SPDX-License-Identifier: Apache-2.0
// Quantisation in blocks of rows and columns with one scale, and in blocks that begin anew with each group of rows.
#include <tuple>
#include <vector>

#include "device/npu_ops/families.h"
#include "device/npu_ops/quantisation/microscaling.h"

namespace npugraph::npu_ops {
namespace {

// Expands the scales [..., a, b] of square blocks of `x` to bytes of scales of blocks along `axis`, -1 or -2, alone:
// each is repeated for every position of the other dimension. Blocks that only complete a pair have the scale byte 0,
// as blocks of zeros do.
Tensor scales_along(const Tensor& scale, const Tensor& x, int64_t axis) {
  const int64_t other = -3 - axis, dim = x.dim() + axis;
  const Tensor bytes = scale.view(at::kByte);
  const Tensor each = bytes.repeat_interleave_symint(kMxBlock, other).narrow_symint(other, 0, x.sym_size(other));
  const c10::SymInt pairs = (scale.sym_size(axis) + 1) / 2;
  const Tensor whole = zero_padded(each, dim, pairs * 2).unflatten_symint(dim, {pairs, 2});
  return whole.movedim(dim + 1, -1).contiguous();
}

std::tuple<Tensor, Tensor, Tensor> dynamic_block_mx_quant(const Tensor& input, c10::string_view round_mode,
                                                          int64_t dst_type, int64_t scale_alg, double dst_type_max) {
  constexpr const char* kOp = "npu_dynamic_block_mx_quant";
  check_floating(kOp, "input", input);
  check_dims(kOp, "input", input, 2, 7);
  check_options(kOp, {.round_mode = round_mode, .scale_alg = scale_alg, .dst_type_max = dst_type_max});
  const ElementType type = element_type(kOp, "dst_type", dst_type);
  const Tensor exact = input.to(at::kFloat);
  const Tensor scale = shared_scale(largest_of_blocks(exact, kMxBlock, kMxBlock), type, scale_alg);
  const Tensor values = rounded_elements(kOp, exact / spread_blocks(scale, exact, kMxBlock, kMxBlock), type);
  return {values, scales_along(scale, input, -1), scales_along(scale, input, -2)};
}

std::tuple<Tensor, Tensor> grouped_dynamic_mx_quant(const Tensor& x, const Tensor& group_index,
                                                    c10::string_view round_mode, int64_t dst_type, int64_t blocksize,
                                                    std::optional<int64_t> scale_alg,
                                                    std::optional<double> dst_type_max) {
  constexpr const char* kOp = "npu_grouped_dynamic_mx_quant";
  check_floating(kOp, "x", x);
  const MxOptions options{round_mode, scale_alg.value_or(0), blocksize, dst_type_max.value_or(0)};
  check_options(kOp, options);
  const Blocks out = to_grouped_blocks(kOp, x, group_index, element_type(kOp, "dst_type", dst_type), options.scale_alg);
  return {out.values, out.scale};
}

std::tuple<Tensor, Tensor> grouped_dynamic_block_quant(const Tensor& x, const Tensor& group_list, double min_scale,
                                                       c10::string_view round_mode, int64_t dst_type,
                                                       int64_t row_block_size, int64_t col_block_size,
                                                       int64_t group_list_type, double dst_type_max) {
  constexpr const char* kOp = "npu_grouped_dynamic_block_quant";
  check_floating(kOp, "x", x);
  check_dims(kOp, "x", x, 2, 2);
  check_dims(kOp, "group_list", group_list, 1, 1);
  check_options(kOp, {.round_mode = round_mode});
  check_choice(kOp, "group_list_type", group_list_type, {0, 1});
  check_block_sizes(kOp, row_block_size, col_block_size);
  const QuantType type = quant_type(kOp, "dst_type", dst_type);
  const Tensor ends = group_list_type == 0 ? group_list : group_list.cumsum(0);
  const c10::SymInt rows = x.sym_size(0), count = rows / row_block_size + ends.sym_size(0);
  const Tensor exact = wide(x), block = block_of_rows(ends, rows, row_block_size, 1);
  const Tensor largest = largest_of_rows(largest_of_blocks(exact, 1, col_block_size), block, count);
  const Tensor scale = (largest / (dst_type_max == 0 ? type.high : dst_type_max)).clamp_min(min_scale);
  const Tensor divisor = scale.masked_fill(scale == 0, 1).index_select(0, block);
  return {quantised(kOp, exact / spread_blocks(divisor, x, 1, col_block_size), type), scale.to(at::kFloat)};
}

}  // namespace

void define_mx_groups(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_dynamic_block_mx_quant(Tensor input, *, str round_mode=\"rint\", int dst_type=296, int "
                "scale_alg=0, float dst_type_max=0.0) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&dynamic_block_mx_quant),
      .definition = "npu_dynamic_mx_quant with one scale for each block of 32 by 32 values of the last two "
                    "dimensions, so that the values are in MX format along both of them. input is [..., R, C]; "
                    "dst_type_max must be 0. Results: the values; the scales as along the last dimension, [..., R, "
                    "ceil(C / 64), 2]; and the scales as along the second to last, [..., ceil(R / 64), C, 2].",
  });
  library.add({
      .schema = "npu::npu_grouped_dynamic_mx_quant(Tensor x, Tensor group_index, *, str round_mode=\"rint\", int "
                "dst_type=23, int blocksize=32, int? scale_alg=0, float? dst_type_max=0.0) -> (Tensor, Tensor)",
      .kernel = parts(&grouped_dynamic_mx_quant),
      .definition = "npu_dynamic_mx_quant along dimension 0 of x, [T, C], with blocks that begin anew at each group "
                    "of rows. group_index, [groups], has the cumulative ends of the groups; rows after the last end "
                    "belong to the last group. Results: the values, and the scales in pairs of blocks, [floor(T / 64) "
                    "+ groups, C, 2]; the pairs of group g, whose first row is s, begin at floor(s / 64) + g.",
  });
  library.add({
      .schema = "npu::npu_grouped_dynamic_block_quant(Tensor x, Tensor group_list, *, float min_scale=0.0, str "
                "round_mode=\"rint\", int dst_type=291, int row_block_size=1, int col_block_size=128, int "
                "group_list_type=0, float dst_type_max=0.0) -> (Tensor, Tensor)",
      .kernel = parts(&grouped_dynamic_block_quant),
      .definition = "npu_dynamic_block_quant of x, [T, C], with blocks that begin anew at each group of rows. "
                    "group_list, [groups], has the cumulative ends of the groups (group_list_type 0) or their sizes "
                    "(1); rows after the last end belong to the last group. Results: y in dst_type, float8_e5m2 by "
                    "default, and scale in float32, [floor(T / row_block_size) + groups, ceil(C / col_block_size)]. "
                    "The scales of group g, whose first row is s, begin at floor(s / row_block_size) + g; those of no "
                    "rows are min_scale.",
  });
}

}  // namespace npugraph::npu_ops
