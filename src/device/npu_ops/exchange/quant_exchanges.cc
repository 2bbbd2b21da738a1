// SPDX-License-Identifier: Apache-2.0
// Products of int8 and float8 before or after all_to_all over the group `hcom`, with scales. Arguments that say in
// which type data travels (comm_*) change nothing here.
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "device/npu_ops/exchange/exchange_parts.h"
#include "device/npu_ops/families.h"
#include "device/npu_ops/matmul/products.h"
#include "device/npu_ops/quantisation/quantisation.h"

namespace npugraph::npu_ops {
namespace {

using at::IntArrayRef;
using at::OptionalIntArrayRef;
using at::ScalarType;
using c10::SymInt;
using distributed::Group;

void check_quant_matmul_all_to_all(const Tensor& x1, const Tensor& x2, int64_t world_size) {
  constexpr const char* kOp = "npu_quant_matmul_all_to_all";
  check_small(kOp, "x1", x1);
  check_small(kOp, "x2", x2);
  check_matrices(kOp, x1, x2, x1.sym_size(1));
  check_split(kOp, "columns of x2", x2.sym_size(1), world_size);
}

Tensor quant_matmul_all_to_all(const Tensor& x1, const Tensor& x2, std::string_view hcom, int64_t world_size,
                               const OptionalTensor& bias, const OptionalTensor& x1_scale,
                               const OptionalTensor& x2_scale, const OptionalTensor&, const OptionalTensor& x1_offset,
                               const OptionalTensor& x2_offset, OptionalInt, OptionalInt, OptionalInt,
                               OptionalIntArrayRef group_sizes, OptionalIntArrayRef, OptionalInt, OptionalInt,
                               OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt y_dtype,
                               OptionalString) {
  constexpr const char* kOp = "npu_quant_matmul_all_to_all";
  check_quant_matmul_all_to_all(x1, x2, world_size);
  check_absent(kOp, "group_sizes", group_sizes.has_value());
  check_absent(kOp, "an offset", given(x1_offset) || given(x2_offset));
  const Group group(kOp, std::string(hcom), world_size);
  const ScalarType type = type_of_code(kOp, "y_dtype", y_dtype, at::kFloat);
  return columns_to_rows(group, Product{bias, x1_scale, x2_scale}(x1, x2).to(type));
}

Tensor quant_matmul_all_to_all_meta(const Tensor& x1, const Tensor& x2, std::string_view, int64_t world_size,
                                    const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                                    const OptionalTensor&, const OptionalTensor&, const OptionalTensor&, OptionalInt,
                                    OptionalInt, OptionalInt, OptionalIntArrayRef, OptionalIntArrayRef, OptionalInt,
                                    OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt,
                                    OptionalInt y_dtype, OptionalString) {
  check_quant_matmul_all_to_all(x1, x2, world_size);
  const ScalarType type = type_of_code("npu_quant_matmul_all_to_all", "y_dtype", y_dtype, at::kFloat);
  return x1.new_empty_symint({x1.sym_size(0) * world_size, x2.sym_size(1) / world_size}, x1.options().dtype(type));
}

// x1 is int8 or float8, or has 16 bits or more; in the latter case its rows are quantised after all
// their columns have come.
void check_all_to_all_quant_matmul(const Tensor& x1, const Tensor& x2, int64_t world_size,
                                   const OptionalTensor& x1_scale) {
  constexpr const char* kOp = "npu_all_to_all_quant_matmul";
  const bool is_exact = x1.is_floating_point() && x1.element_size() > 1;
  if (!is_exact) check_small(kOp, "x1", x1);
  check_small(kOp, "x2", x2);
  check_matrices(kOp, x1, x2, x1.sym_size(1) * world_size);
  check_split(kOp, "rows of x1", x1.sym_size(0), world_size);
  if (is_exact) return check_absent(kOp, "x1_scale of an x1 that is not quantised", given(x1_scale));
  const SymInt scales = given(x1_scale) ? x1_scale->sym_numel() : SymInt(1);
  TORCH_CHECK(scales == 1 || scales == x1.sym_size(0) / world_size, kOp,
              ": x1_scale must be one number, or one for each of the ", x1.sym_size(0) / world_size,
              " rows of the result, got ", scales);
}

std::tuple<Tensor, Tensor> all_to_all_quant_matmul(
    const Tensor& x1, const Tensor& x2, std::string_view hcom, int64_t world_size, bool all2all_out_flag,
    const OptionalTensor& bias, const OptionalTensor& x1_scale, const OptionalTensor& x2_scale, const OptionalTensor&,
    const OptionalTensor& x1_offset, const OptionalTensor& x2_offset, OptionalInt, OptionalInt, OptionalInt,
    OptionalIntArrayRef group_sizes, OptionalIntArrayRef, OptionalInt, OptionalInt x1_quant_dtype, OptionalInt,
    OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt y_dtype, OptionalString) {
  constexpr const char* kOp = "npu_all_to_all_quant_matmul";
  check_all_to_all_quant_matmul(x1, x2, world_size, x1_scale);
  check_absent(kOp, "group_sizes", group_sizes.has_value());
  check_absent(kOp, "an offset", given(x1_offset) || given(x2_offset));
  const Group group(kOp, std::string(hcom), world_size);
  const Tensor rows = rows_to_columns(group, x1);
  Quantised factor = {rows, x1_scale.value_or(Tensor())};
  if (x1.element_size() > 1)
    factor = dynamically_quantised(kOp, wide(rows), -1, quant_type(kOp, "x1_quant_dtype", x1_quant_dtype));
  const ScalarType type = result_type(kOp, "y_dtype", x1, x2_scale, y_dtype);
  const Tensor y = Product{bias, factor.scale, x2_scale}(factor.values, x2).to(type);
  return {y, all2all_out_flag ? rows.clone(at::MemoryFormat::Contiguous) : nothing(x1)};
}

std::tuple<Tensor, Tensor> all_to_all_quant_matmul_meta(
    const Tensor& x1, const Tensor& x2, std::string_view, int64_t world_size, bool all2all_out_flag,
    const OptionalTensor&, const OptionalTensor& x1_scale, const OptionalTensor& x2_scale, const OptionalTensor&,
    const OptionalTensor&, const OptionalTensor&, OptionalInt, OptionalInt, OptionalInt, OptionalIntArrayRef,
    OptionalIntArrayRef, OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt,
    OptionalInt, OptionalInt y_dtype, OptionalString) {
  check_all_to_all_quant_matmul(x1, x2, world_size, x1_scale);
  const ScalarType type = result_type("npu_all_to_all_quant_matmul", "y_dtype", x1, x2_scale, y_dtype);
  const SymInt rows = x1.sym_size(0) / world_size;
  return {x1.new_empty_symint({rows, x2.sym_size(1)}, x1.options().dtype(type)),
          all2all_out_flag ? x1.new_empty_symint({rows, x1.sym_size(1) * world_size}) : nothing(x1)};
}

// Products of rows with the weights of their experts. There is one scale for all rows, and one for all
// weights or for each expert.
struct Experts {
  const char* op;
  Tensor weight, x_scale, weight_scale;
  ScalarType type;

  void check(const Tensor& x) const {
    check_small(op, "gmm_x", x);
    check_small(op, "gmm_weight", weight);
    check_dims(op, "gmm_x", x, 2, 2);
    check_dims(op, "gmm_weight", weight, 3, 3);
    TORCH_CHECK_NOT_IMPLEMENTED(x_scale.sym_numel() == 1, op, ": gmm_x_scale must be one number on the host, got ",
                                x_scale.sym_numel());
    const SymInt scales = weight_scale.sym_numel();
    TORCH_CHECK_NOT_IMPLEMENTED(scales == 1 || scales == weight.sym_size(0), op,
                                ": gmm_weight_scale must be one number, or one for each expert, on the host, got ",
                                scales);
  }

  Tensor operator()(const Tensor& x, const std::vector<int64_t>& rows) const {
    const std::vector<Tensor> pieces = x.split_with_sizes(rows);
    const Tensor scales = weight_scale.reshape({-1}).expand({weight.size(0)});
    std::vector<Tensor> out;
    for (size_t expert = 0; expert < rows.size(); ++expert) {
      const auto index = static_cast<int64_t>(expert);
      out.push_back(Product{std::nullopt, x_scale, scales[index]}(pieces[expert], weight[index]).to(type));
    }
    return at::cat(out);
  }

  Tensor empty(const Tensor& x, SymInt rows) const {
    return x.new_empty_symint({std::move(rows), weight.sym_size(2)}, x.options().dtype(type));
  }
};

Experts experts_with(const char* op, const Tensor& x, const Tensor& weight, const Tensor& x_scale,
                     const Tensor& weight_scale, int64_t type) {
  Experts out{op, weight, x_scale, weight_scale, type_of_code(op, "gmm_y_dtype", type, at::kHalf)};
  out.check(x);
  return out;
}

// The product of rows that stay on their rank: mm_y.
struct Shared {
  const char* op;
  OptionalTensor x, weight, x_scale, weight_scale;
  OptionalInt y_dtype;

  void check() const {
    TORCH_CHECK(given(x) == given(weight), op, ": mm_x and mm_weight come together");
    if (!given(x)) return;
    check_small(op, "mm_x", *x);
    check_small(op, "mm_weight", *weight);
    check_dims(op, "mm_x", *x, 2, 2);
    check_dims(op, "mm_weight", *weight, 2, 2);
  }
  ScalarType type() const { return result_type(op, "mm_y_dtype", *x, weight_scale, y_dtype); }

  Tensor operator()(const Tensor& y) const {
    check();
    return given(x) ? Product{std::nullopt, x_scale, weight_scale}(*x, *weight).to(type()) : nothing(y);
  }
  Tensor empty(const Tensor& y) const {
    check();
    if (!given(x)) return nothing(y);
    return x->new_empty_symint({x->sym_size(0), weight->sym_size(1)}, x->options().dtype(type()));
  }
};

std::tuple<Tensor, Tensor, Tensor> alltoallv_quant_gmm(
    const Tensor& x, const Tensor& weight, const Tensor& x_scale, const Tensor& weight_scale, std::string_view hcom,
    int64_t ranks, IntArrayRef send_counts, IntArrayRef recv_counts, int64_t y_dtype, const OptionalTensor& send_tensor,
    const OptionalTensor& recv_tensor, const OptionalTensor& mm_x, const OptionalTensor& mm_weight,
    const OptionalTensor& mm_x_scale, const OptionalTensor& mm_weight_scale, OptionalInt, OptionalInt, OptionalInt,
    OptionalInt, bool permute_out_flag, OptionalIntArrayRef group_size, OptionalInt, OptionalInt, OptionalInt,
    OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt mm_y_dtype, OptionalString) {
  constexpr const char* kOp = "npu_alltoallv_quant_gmm";
  check_absent(kOp, "a tensor of counts", given(send_tensor) || given(recv_tensor));
  check_absent(kOp, "group_size", group_size.has_value());
  const Shared shared = {kOp, mm_x, mm_weight, mm_x_scale, mm_weight_scale, mm_y_dtype};
  const Experts experts = experts_with(kOp, x, weight, x_scale, weight_scale, y_dtype);
  const ExpertRoutes routes(kOp, hcom, weight, ranks, send_counts, recv_counts);
  const Tensor rows = routes.to_experts(x);
  const Tensor y = experts(rows, routes.received().of_experts());
  return {y, shared(y), permute_out_flag ? rows : nothing(x)};
}

std::tuple<Tensor, Tensor, Tensor> alltoallv_quant_gmm_meta(
    const Tensor& x, const Tensor& weight, const Tensor& x_scale, const Tensor& weight_scale, std::string_view,
    int64_t ranks, IntArrayRef, IntArrayRef recv_counts, int64_t y_dtype, const OptionalTensor&, const OptionalTensor&,
    const OptionalTensor& mm_x, const OptionalTensor& mm_weight, const OptionalTensor& mm_x_scale,
    const OptionalTensor& mm_weight_scale, OptionalInt, OptionalInt, OptionalInt, OptionalInt, bool permute_out_flag,
    OptionalIntArrayRef, OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt,
    OptionalInt, OptionalInt mm_y_dtype, OptionalString) {
  constexpr const char* kOp = "npu_alltoallv_quant_gmm";
  const Shared shared = {kOp, mm_x, mm_weight, mm_x_scale, mm_weight_scale, mm_y_dtype};
  const Experts experts = experts_with(kOp, x, weight, x_scale, weight_scale, y_dtype);
  const SymInt rows = received_rows(kOp, weight, ranks, recv_counts);
  const Tensor y = experts.empty(x, rows);
  return {y, shared.empty(y), permute_out_flag ? x.new_empty_symint({rows, x.sym_size(1)}) : nothing(x)};
}

std::tuple<Tensor, Tensor> quant_gmm_alltoallv(
    const Tensor& x, const Tensor& weight, const Tensor& x_scale, const Tensor& weight_scale, std::string_view hcom,
    int64_t ranks, IntArrayRef send_counts, IntArrayRef recv_counts, int64_t y_dtype, const OptionalTensor& send_tensor,
    const OptionalTensor& recv_tensor, const OptionalTensor& mm_x, const OptionalTensor& mm_weight,
    const OptionalTensor& mm_x_scale, const OptionalTensor& mm_weight_scale, const OptionalTensor&, OptionalInt,
    OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalIntArrayRef group_size, OptionalInt, OptionalInt,
    OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt mm_y_dtype,
    OptionalString) {
  constexpr const char* kOp = "npu_quant_gmm_alltoallv";
  check_absent(kOp, "a tensor of counts", given(send_tensor) || given(recv_tensor));
  check_absent(kOp, "group_size", group_size.has_value());
  const Shared shared = {kOp, mm_x, mm_weight, mm_x_scale, mm_weight_scale, mm_y_dtype};
  const Experts experts = experts_with(kOp, x, weight, x_scale, weight_scale, y_dtype);
  const ExpertRoutes routes(kOp, hcom, weight, ranks, send_counts, recv_counts);
  const Tensor y = routes.to_ranks(experts(x, routes.sent().of_experts()));
  return {y, shared(y)};
}

std::tuple<Tensor, Tensor> quant_gmm_alltoallv_meta(
    const Tensor& x, const Tensor& weight, const Tensor& x_scale, const Tensor& weight_scale, std::string_view,
    int64_t ranks, IntArrayRef, IntArrayRef recv_counts, int64_t y_dtype, const OptionalTensor&, const OptionalTensor&,
    const OptionalTensor& mm_x, const OptionalTensor& mm_weight, const OptionalTensor& mm_x_scale,
    const OptionalTensor& mm_weight_scale, const OptionalTensor&, OptionalInt, OptionalInt, OptionalInt, OptionalInt,
    OptionalInt, OptionalIntArrayRef, OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalInt,
    OptionalInt, OptionalInt, OptionalInt, OptionalInt mm_y_dtype, OptionalString) {
  constexpr const char* kOp = "npu_quant_gmm_alltoallv";
  const Shared shared = {kOp, mm_x, mm_weight, mm_x_scale, mm_weight_scale, mm_y_dtype};
  const Experts experts = experts_with(kOp, x, weight, x_scale, weight_scale, y_dtype);
  const Tensor y = experts.empty(x, received_rows(kOp, weight, ranks, recv_counts));
  return {y, shared.empty(y)};
}

}  // namespace

void define_quant_exchanges(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_all_to_all_quant_matmul(Tensor x1, Tensor x2, str hcom, int world_size, *, bool "
                "all2all_out_flag=True, Tensor? bias=None, Tensor? x1_scale=None, Tensor? x2_scale=None, Tensor? "
                "common_scale=None, Tensor? x1_offset=None, Tensor? x2_offset=None, int? x1_quant_mode=None, int? "
                "x2_quant_mode=None, int? common_quant_mode=None, int[]? group_sizes=None, int[]? all2all_axes=None, "
                "int? comm_quant_dtype=None, int? x1_quant_dtype=None, int? x1_dtype=None, int? x2_dtype=None, int? "
                "x1_scale_dtype=None, int? x2_scale_dtype=None, int? output_scale_dtype=None, int? "
                "comm_scale_dtype=None, int? y_dtype=None, str? comm_mode=None) -> (Tensor, Tensor)",
      .kernel = whole(&all_to_all_quant_matmul, &all_to_all_quant_matmul_meta),
      .definition = "npu_all_to_all_matmul of int8 or float8 factors: y = (all2all_out @ x2) * x1_scale * x2_scale + "
                    "bias, where an int32 bias is added before the scales. x1_scale has one number, or one for each "
                    "row of the result; x2_scale has one number, or one for each column, in a floating type, or in "
                    "int64 whose low 32 bits are those of a float32. An x1 of 16 bits or more, which takes no "
                    "x1_scale, is quantised dynamically per token after the all-to-all, to x1_quant_dtype, by default "
                    "int8: the largest magnitude of each row becomes the largest value of the type. y is in y_dtype, "
                    "by default in the type of such an x1, else as in npu_all_gather_quant_mm; all2all_out is not "
                    "quantised. Offsets and group_sizes raise NotImplementedError; all2all_axes, common_scale, "
                    "quantisation modes, other types and comm_* are ignored.",
  });
  library.add({
      .schema = "npu::npu_alltoallv_quant_gmm(Tensor gmm_x, Tensor gmm_weight, Tensor gmm_x_scale, Tensor "
                "gmm_weight_scale, str hcom, int ep_world_size, int[] send_counts, int[] recv_counts, int gmm_y_dtype, "
                "*, Tensor? send_counts_tensor=None, Tensor? recv_counts_tensor=None, Tensor? mm_x=None, Tensor? "
                "mm_weight=None, Tensor? mm_x_scale=None, Tensor? mm_weight_scale=None, int? gmm_x_quant_mode=None, "
                "int? gmm_weight_quant_mode=None, int? mm_x_quant_mode=None, int? mm_weight_quant_mode=None, bool "
                "permute_out_flag=False, int[]? group_size=None, int? gmm_x_dtype=None, int? gmm_weight_dtype=None, "
                "int? gmm_x_scale_dtype=None, int? gmm_weight_scale_dtype=None, int? mm_x_dtype=None, int? "
                "mm_weight_dtype=None, int? mm_x_scale_dtype=None, int? mm_weight_scale_dtype=None, int? "
                "mm_y_dtype=None, str? comm_mode=None) -> (Tensor, Tensor, Tensor)",
      .kernel = whole(&alltoallv_quant_gmm, &alltoallv_quant_gmm_meta),
      .definition = "npu_alltoallv_gmm of int8 or float8 factors: gmm_y is multiplied by gmm_x_scale, one number, and "
                    "gmm_weight_scale, one number or one for each expert, and is in gmm_y_dtype. mm_y is multiplied by "
                    "mm_x_scale, one number or one for each row, and mm_weight_scale, one number or one for each "
                    "column, and is in mm_y_dtype, by default as in npu_all_gather_quant_mm. Weights are not "
                    "transposed. Other sizes of gmm_x_scale and gmm_weight_scale, group_size and tensors of counts "
                    "raise NotImplementedError; quantisation modes, other types and comm_mode are ignored.",
  });
  library.add({
      .schema =
          "npu::npu_quant_gmm_alltoallv(Tensor gmm_x, Tensor gmm_weight, Tensor gmm_x_scale, Tensor gmm_weight_scale, "
          "str hcom, int ep_world_size, int[] send_counts, int[] recv_counts, int gmm_y_dtype, *, Tensor? "
          "send_counts_tensor=None, Tensor? recv_counts_tensor=None, Tensor? mm_x=None, Tensor? mm_weight=None, "
          "Tensor? mm_x_scale=None, Tensor? mm_weight_scale=None, Tensor? comm_quant_scale=None, int? "
          "gmm_x_quant_mode=None, int? gmm_weight_quant_mode=None, int? mm_x_quant_mode=None, int? "
          "mm_weight_quant_mode=None, int? comm_quant_mode=None, int[]? group_size=None, int? gmm_x_dtype=None, int? "
          "gmm_weight_dtype=None, int? gmm_x_scale_dtype=None, int? gmm_weight_scale_dtype=None, int? mm_x_dtype=None, "
          "int? mm_weight_dtype=None, int? mm_x_scale_dtype=None, int? mm_weight_scale_dtype=None, int? "
          "comm_quant_dtype=None, int? mm_y_dtype=None, str? comm_mode=None) -> (Tensor, Tensor)",
      .kernel = whole(&quant_gmm_alltoallv, &quant_gmm_alltoallv_meta),
      .definition = "npu_gmm_alltoallv of int8 or float8 factors, with scales and types as in npu_alltoallv_quant_gmm. "
                    "The products travel in gmm_y_dtype; comm_quant_scale and the other comm_* arguments are ignored.",
  });
  library.add({
      .schema =
          "npu::npu_quant_matmul_all_to_all(Tensor x1, Tensor x2, str hcom, int world_size, Tensor? bias=None, Tensor? "
          "x1_scale=None, Tensor? x2_scale=None, Tensor? common_scale=None, Tensor? x1_offset=None, Tensor? "
          "x2_offset=None, int? x1_quant_mode=None, int? x2_quant_mode=None, int? common_quant_mode=None, int[]? "
          "group_sizes=None, int[]? all2all_axes=None, int? comm_quant_dtype=None, int? x1_dtype=None, int? "
          "x2_dtype=None, int? x1_scale_dtype=None, int? x2_scale_dtype=None, int? output_scale_dtype=None, int? "
          "comm_scale_dtype=None, int? y_dtype=None, str? comm_mode=None) -> Tensor",
      .kernel = whole(&quant_matmul_all_to_all, &quant_matmul_all_to_all_meta),
      .definition = "npu_matmul_all_to_all of int8 or float8 factors: (x1 @ x2) * x1_scale * x2_scale + bias, where "
                    "an int32 bias is added before the scales. x1_scale has one number, or one for each row; x2_scale "
                    "has one number, or one for each column, in a floating type, or in int64 whose low 32 bits are "
                    "those of a float32. The result is in y_dtype, by default float32. Offsets and group_sizes raise "
                    "NotImplementedError; all2all_axes, common_scale, quantisation modes, other types and comm_* are "
                    "ignored.",
  });
}

}  // namespace npugraph::npu_ops
