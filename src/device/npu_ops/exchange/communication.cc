// SPDX-License-Identifier: Apache-2.0
// Products before or after a collective over the group `hcom`. Products are in float32 or int32, are rounded to the
// type of the result, and travel in that type. Arguments that say how data travels (comm_*) change nothing here.
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "device/npu_ops/exchange/exchange_parts.h"
#include "device/npu_ops/families.h"
#include "device/npu_ops/matmul/products.h"

namespace npugraph::npu_ops {
namespace {

using at::OptionalIntArrayRef;
using at::ScalarType;
using c10::SymInt;
using distributed::Group;

void check_sum(const char* op, std::string_view reduce_op) {
  TORCH_CHECK(reduce_op == "sum", op, ": reduce_op must be 'sum', got '", reduce_op, "'");
}

void check_factors(const char* op, const Tensor& x1, const Tensor& x2, int64_t most_dims = 2) {
  for (const auto& [name, factor] : {std::pair("x1", &x1), std::pair("x2", &x2)}) {
    check_type(op, name, *factor,
               {at::kFloat, at::kHalf, at::kBFloat16, at::kChar, at::kFloat8_e4m3fn, at::kFloat8_e5m2});
  }
  check_matrices(op, x1, x2, x1.sym_size(-1), most_dims);
}

// Checks that scales are by row and column, and that results are not quantised.
void check_plain(const char* op, const OptionalTensor& quant_scale, int64_t block_size, OptionalIntArrayRef group_sizes,
                 bool amax_output) {
  check_absent(op, "quant_scale", given(quant_scale));
  check_absent(op, "block_size", block_size != 0);
  check_absent(op, "group_sizes", group_sizes.has_value());
  check_absent(op, "amax_output", amax_output);
}

// Dequantises integer weights: (x2 + offset) * scale, by column, or by groups of rows of each column.
Tensor dequantised_x2(const Tensor& x2, const OptionalTensor& scale, const OptionalTensor& offset, int64_t group) {
  auto of_rows = [&](const Tensor& values) {
    return group > 0 ? wide(values).repeat_interleave(group, 0).slice(0, 0, x2.size(0)) : wide(values);
  };
  const Tensor shifted = given(offset) ? wide(x2) + of_rows(*offset) : wide(x2);
  return shifted * of_rows(*scale);
}

// Unlike in other operators, a float32 scale gives float16.
ScalarType type_of_all_reduce(const Tensor& x1, const OptionalTensor& scale, OptionalInt y_dtype) {
  const bool halves = x1.element_size() == 1 && given(scale) && scale->scalar_type() == at::kFloat;
  const ScalarType fallback = halves ? at::kHalf : result_type(x1, scale, std::nullopt);
  return type_of_code("npu_mm_all_reduce_base", "y_dtype", y_dtype, fallback);
}

Tensor mm_all_reduce(const Tensor& x1, const Tensor& x2, std::string_view hcom, std::string_view reduce_op,
                     const OptionalTensor& bias, const OptionalTensor& antiquant_scale,
                     const OptionalTensor& antiquant_offset, const OptionalTensor& x3,
                     const OptionalTensor& dequant_scale, const OptionalTensor& pertoken_scale, const OptionalTensor&,
                     const OptionalTensor&, int64_t antiquant_group_size, int64_t, OptionalIntArrayRef group_sizes,
                     OptionalInt y_dtype, OptionalInt, OptionalInt, OptionalInt, OptionalInt, int64_t, OptionalString) {
  constexpr const char* kOp = "npu_mm_all_reduce_base";
  check_sum(kOp, reduce_op);
  check_factors(kOp, x1, x2, 3);
  check_absent(kOp, "group_sizes", group_sizes.has_value());
  const Group group(kOp, std::string(hcom));
  const Tensor weight =
      given(antiquant_scale) ? dequantised_x2(x2, antiquant_scale, antiquant_offset, antiquant_group_size) : x2;
  const Tensor rows = x1.reshape({-1, x1.size(-1)});
  std::vector<int64_t> sizes = x1.sizes().vec();
  sizes.back() = x2.size(1);
  Tensor out = Product{bias, pertoken_scale, dequant_scale}(rows, weight).view(sizes);
  if (given(x3)) out = out + wide(*x3);
  return group.all_reduce(out.to(type_of_all_reduce(x1, dequant_scale, y_dtype)));
}

Tensor mm_all_reduce_meta(const Tensor& x1, const Tensor& x2, std::string_view, std::string_view reduce_op,
                          const OptionalTensor&, const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                          const OptionalTensor& dequant_scale, const OptionalTensor&, const OptionalTensor&,
                          const OptionalTensor&, int64_t, int64_t, OptionalIntArrayRef, OptionalInt y_dtype,
                          OptionalInt, OptionalInt, OptionalInt, OptionalInt, int64_t, OptionalString) {
  constexpr const char* kOp = "npu_mm_all_reduce_base";
  check_sum(kOp, reduce_op);
  check_factors(kOp, x1, x2, 3);
  std::vector<SymInt> sizes = x1.sym_sizes().vec();
  sizes.back() = x2.sym_size(1);
  const ScalarType type = type_of_all_reduce(x1, dequant_scale, y_dtype);
  return x1.new_empty_symint(sizes, x1.options().dtype(type));
}

// Shared by all operators that are a product and a reduce_scatter.
Tensor reduce_scattered(const char* op, const Tensor& x1, const Tensor& x2, std::string_view hcom, int64_t world_size,
                        std::string_view reduce_op, const Product& product, ScalarType type) {
  check_sum(op, reduce_op);
  check_factors(op, x1, x2);
  const Group group(op, std::string(hcom), world_size);
  check_split(op, "rows of x1", x1.size(0), world_size);
  return group.reduce_scatter(product(x1, x2).to(type));
}

Tensor reduce_scattered_meta(const Tensor& x1, const Tensor& x2, int64_t world_size, ScalarType type) {
  return x1.new_empty_symint({x1.sym_size(0) / world_size, x2.sym_size(1)}, x1.options().dtype(type));
}

Tensor mm_reduce_scatter(const Tensor& input, const Tensor& x2, std::string_view hcom, int64_t world_size,
                         std::string_view reduce_op, const OptionalTensor& bias, const OptionalTensor& x1_scale,
                         const OptionalTensor& x2_scale, int64_t, OptionalType output_dtype, OptionalString) {
  return reduce_scattered("npu_mm_reduce_scatter_base", input, x2, hcom, world_size, reduce_op,
                          {bias, x1_scale, x2_scale}, result_type(input, x2_scale, output_dtype));
}

Tensor mm_reduce_scatter_meta(const Tensor& input, const Tensor& x2, std::string_view, int64_t world_size,
                              std::string_view, const OptionalTensor&, const OptionalTensor&,
                              const OptionalTensor& x2_scale, int64_t, OptionalType output_dtype, OptionalString) {
  return reduce_scattered_meta(input, x2, world_size, result_type(input, x2_scale, output_dtype));
}

std::tuple<Tensor, Tensor> quant_mm_reduce_scatter(const Tensor& input, const Tensor& x2, std::string_view hcom,
                                                   int64_t world_size, std::string_view reduce_op,
                                                   const OptionalTensor& bias, const OptionalTensor& x1_scale,
                                                   const OptionalTensor& x2_scale, const OptionalTensor& quant_scale,
                                                   int64_t block_size, int64_t, OptionalIntArrayRef group_sizes,
                                                   bool amax_output, OptionalInt y_dtype, OptionalInt, OptionalInt,
                                                   OptionalInt, OptionalInt, OptionalString) {
  constexpr const char* kOp = "npu_quant_mm_reduce_scatter";
  check_plain(kOp, quant_scale, block_size, group_sizes, amax_output);
  const ScalarType type = result_type(kOp, "y_dtype", input, x2_scale, y_dtype);
  return {reduce_scattered(kOp, input, x2, hcom, world_size, reduce_op, {bias, x1_scale, x2_scale}, type),
          nothing(x2).to(at::kFloat)};
}

std::tuple<Tensor, Tensor> quant_mm_reduce_scatter_meta(const Tensor& input, const Tensor& x2, std::string_view,
                                                        int64_t world_size, std::string_view, const OptionalTensor&,
                                                        const OptionalTensor&, const OptionalTensor& x2_scale,
                                                        const OptionalTensor&, int64_t, int64_t, OptionalIntArrayRef,
                                                        bool, OptionalInt y_dtype, OptionalInt, OptionalInt,
                                                        OptionalInt, OptionalInt, OptionalString) {
  const ScalarType type = result_type("npu_quant_mm_reduce_scatter", "y_dtype", input, x2_scale, y_dtype);
  return {reduce_scattered_meta(input, x2, world_size, type), nothing(x2).to(at::kFloat)};
}

struct Gathered {
  Tensor y;
  Tensor x1;
};

// Shared by all operators that are an all_gather and a product. Scales of rows are gathered with the rows.
Gathered gathered_product(const char* op, const Tensor& x1, const Tensor& x2, std::string_view hcom, int64_t world_size,
                          int64_t gather_index, Product product, ScalarType type) {
  TORCH_CHECK(gather_index == 0, op, ": gather_index must be 0, got ", gather_index);
  check_factors(op, x1, x2);
  const Group group(op, std::string(hcom), world_size);
  const Tensor rows = group.all_gather(x1);
  if (given(product.x1_scale) && (product.x1_scale->numel() > 1 || x1.size(0) == 1))
    product.x1_scale = group.all_gather(product.x1_scale->reshape({-1}));
  return {product(rows, x2).to(type), rows};
}

Gathered gathered_product_meta(const Tensor& x1, const Tensor& x2, int64_t world_size, ScalarType type) {
  const SymInt rows = x1.sym_size(0) * world_size;
  return {x1.new_empty_symint({rows, x2.sym_size(1)}, x1.options().dtype(type)),
          x1.new_empty_symint({rows, x1.sym_size(1)})};
}

std::tuple<Tensor, Tensor> all_gather_mm(const Tensor& input, const Tensor& x2, std::string_view hcom,
                                         int64_t world_size, const OptionalTensor& bias, const OptionalTensor& x1_scale,
                                         const OptionalTensor& x2_scale, int64_t gather_index, bool gather_output,
                                         int64_t, OptionalType output_dtype, OptionalString) {
  const Gathered out = gathered_product("npu_all_gather_base_mm", input, x2, hcom, world_size, gather_index,
                                        {bias, x1_scale, x2_scale}, result_type(input, x2_scale, output_dtype));
  // With one rank, all_gather returns its argument, and a result must not share memory with an argument.
  return {out.y, gather_output ? out.x1.clone(at::MemoryFormat::Contiguous) : nothing(input)};
}

std::tuple<Tensor, Tensor> all_gather_mm_meta(const Tensor& input, const Tensor& x2, std::string_view,
                                              int64_t world_size, const OptionalTensor&, const OptionalTensor&,
                                              const OptionalTensor& x2_scale, int64_t, bool gather_output, int64_t,
                                              OptionalType output_dtype, OptionalString) {
  const Gathered out = gathered_product_meta(input, x2, world_size, result_type(input, x2_scale, output_dtype));
  return {out.y, gather_output ? out.x1 : nothing(input)};
}

std::tuple<Tensor, Tensor, Tensor> all_gather_quant_mm(
    const Tensor& input, const Tensor& x2, std::string_view hcom, int64_t world_size, const OptionalTensor& bias,
    const OptionalTensor& x1_scale, const OptionalTensor& x2_scale, const OptionalTensor& quant_scale,
    int64_t block_size, int64_t gather_index, bool gather_output, int64_t, OptionalIntArrayRef group_sizes,
    bool amax_output, OptionalInt y_dtype, OptionalInt, OptionalInt, OptionalInt, OptionalInt, OptionalString) {
  constexpr const char* kOp = "npu_all_gather_quant_mm";
  check_plain(kOp, quant_scale, block_size, group_sizes, amax_output);
  const ScalarType type = result_type(kOp, "y_dtype", input, x2_scale, y_dtype);
  const Gathered out =
      gathered_product(kOp, input, x2, hcom, world_size, gather_index, {bias, x1_scale, x2_scale}, type);
  return {out.y, gather_output ? out.x1.clone(at::MemoryFormat::Contiguous) : nothing(input),
          nothing(x2).to(at::kFloat)};
}

std::tuple<Tensor, Tensor, Tensor> all_gather_quant_mm_meta(const Tensor& input, const Tensor& x2, std::string_view,
                                                            int64_t world_size, const OptionalTensor&,
                                                            const OptionalTensor&, const OptionalTensor& x2_scale,
                                                            const OptionalTensor&, int64_t, int64_t, bool gather_output,
                                                            int64_t, OptionalIntArrayRef, bool, OptionalInt y_dtype,
                                                            OptionalInt, OptionalInt, OptionalInt, OptionalInt,
                                                            OptionalString) {
  const ScalarType type = result_type("npu_all_gather_quant_mm", "y_dtype", input, x2_scale, y_dtype);
  const Gathered out = gathered_product_meta(input, x2, world_size, type);
  return {out.y, gather_output ? out.x1 : nothing(input), nothing(x2).to(at::kFloat)};
}

}  // namespace

void define_communication(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_all_gather_base_mm(Tensor input, Tensor x2, str hcom, int world_size, *, Tensor? bias=None, "
                "Tensor? x1_scale=None, Tensor? x2_scale=None, int gather_index=0, bool gather_output=True, int "
                "comm_turn=0, ScalarType? output_dtype=None, str? comm_mode=None) -> (Tensor, Tensor)",
      .kernel = whole(&all_gather_mm, &all_gather_mm_meta),
      .definition = "All-gather of the rows of input over the process group hcom, then a GEMM: y = (gathered @ x2) * "
                    "x1_scale * x2_scale + bias. The product of integers is in int32, and everything else in float32; "
                    "an int32 bias is added to the product, before the scales. input is [M, K], x2 is [K, N]. "
                    "x1_scale has one number, or one for each row of input, which is gathered, too; x2_scale has one "
                    "number, or one for each column, in a floating type, or in int64 whose low 32 bits are those of a "
                    "float32. Results: y [M * world_size, N] in output_dtype, by default the type of input, or for "
                    "int8 and float8 that of npu_all_gather_quant_mm; and gathered [M * world_size, K], empty if "
                    "gather_output is False. gather_index must be 0; comm_turn and comm_mode are ignored.",
  });
  library.add({
      .schema = "npu::npu_all_gather_quant_mm(Tensor input, Tensor x2, str hcom, int world_size, *, Tensor? bias=None, "
                "Tensor? x1_scale=None, Tensor? x2_scale=None, Tensor? quant_scale=None, int block_size=0, int "
                "gather_index=0, bool gather_output=True, int comm_turn=0, int[]? group_sizes=None, bool "
                "amax_output=False, int? y_dtype=None, int? x1_dtype=None, int? x2_dtype=None, int? "
                "x1_scale_dtype=None, int? x2_scale_dtype=None, str? comm_mode=None) -> (Tensor, Tensor, Tensor)",
      .kernel = whole(&all_gather_quant_mm, &all_gather_quant_mm_meta),
      .definition = "npu_all_gather_base_mm with codes of types. Without y_dtype a product of int8 or float8 is in "
                    "bfloat16 if x2_scale is, or if x2_scale is float32 and input int8, and in float16 otherwise. The "
                    "third result is an empty float32 tensor. The scales are those of tensors, rows or columns: "
                    "quant_scale, block_size, group_sizes and amax_output raise NotImplementedError. The types of "
                    "arguments (x1_dtype and so on) are ignored.",
  });
  library.add({
      .schema = "npu::npu_mm_all_reduce_base(Tensor x1, Tensor x2, str hcom, *, str reduce_op='sum', Tensor? "
                "bias=None, Tensor? antiquant_scale=None, Tensor? antiquant_offset=None, Tensor? x3=None, Tensor? "
                "dequant_scale=None, Tensor? pertoken_scale=None, Tensor? comm_quant_scale_1=None, Tensor? "
                "comm_quant_scale_2=None, int antiquant_group_size=0, int comm_turn=0, int[]? group_sizes=None, int? "
                "y_dtype=None, int? x1_dtype=None, int? x2_dtype=None, int? dequant_scale_dtype=None, int? "
                "pertoken_scale_dtype=None, int comm_quant_mode=0, str? comm_mode=None) -> Tensor",
      .kernel = whole(&mm_all_reduce, &mm_all_reduce_meta),
      .definition = "GEMM, then an all-reduce (sum) over the process group hcom: all_reduce((x1 @ x2) * dequant_scale "
                    "* pertoken_scale + bias + x3). The product of integers is in int32, and everything else in "
                    "float32; an int32 bias is added to the product, before the scales. x1 is [M, K] or [B, M, K], x2 "
                    "is [K, N], dequant_scale has one number or one for each column, pertoken_scale one for each row, "
                    "and x3, like the result, is [..., M, N]. With antiquant_scale the weight is (x2 + "
                    "antiquant_offset) * antiquant_scale, for each column, or for each column and "
                    "antiquant_group_size rows. The sum is in the type of the result: y_dtype, by default the type of "
                    "x1; for int8 and float8 bfloat16 if dequant_scale is, else float16. reduce_op must be sum; "
                    "group_sizes raises NotImplementedError; comm_* and the types of arguments are ignored.",
  });
  library.add({
      .schema = "npu::npu_mm_reduce_scatter_base(Tensor input, Tensor x2, str hcom, int world_size, *, str "
                "reduce_op='sum', Tensor? bias=None, Tensor? x1_scale=None, Tensor? x2_scale=None, int comm_turn=0, "
                "ScalarType? output_dtype=None, str? comm_mode=None) -> Tensor",
      .kernel = whole(&mm_reduce_scatter, &mm_reduce_scatter_meta),
      .definition = "GEMM, then a reduce-scatter (sum) of its rows over the process group hcom: reduce_scatter((input "
                    "@ x2) * x1_scale * x2_scale + bias). input is [M, K], x2 is [K, N]; scales and bias are as in "
                    "npu_all_gather_base_mm. The result, [M / world_size, N], is in output_dtype, by default as in "
                    "npu_all_gather_base_mm, and the sum is in this type. reduce_op must be sum; comm_turn and "
                    "comm_mode are ignored.",
  });
  library.add({
      .schema = "npu::npu_quant_mm_reduce_scatter(Tensor input, Tensor x2, str hcom, int world_size, *, str "
                "reduce_op='sum', Tensor? bias=None, Tensor? x1_scale=None, Tensor? x2_scale=None, Tensor? "
                "quant_scale=None, int block_size=0, int comm_turn=0, int[]? group_sizes=None, bool amax_output=False, "
                "int? y_dtype=None, int? x1_dtype=None, int? x2_dtype=None, int? x1_scale_dtype=None, int? "
                "x2_scale_dtype=None, str? comm_mode=None) -> (Tensor, Tensor)",
      .kernel = whole(&quant_mm_reduce_scatter, &quant_mm_reduce_scatter_meta),
      .definition = "npu_mm_reduce_scatter_base with codes of types; without y_dtype the type is that of "
                    "npu_all_gather_quant_mm. The second result is an empty float32 tensor. quant_scale, block_size, "
                    "group_sizes and amax_output raise NotImplementedError. The types of arguments (x1_dtype and so "
                    "on) are ignored.",
  });
}

}  // namespace npugraph::npu_ops
