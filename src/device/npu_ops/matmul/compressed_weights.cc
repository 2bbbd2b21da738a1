// SPDX-License-Identifier: Apache-2.0
// Weights in formats that tools for Ascend produce.
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {
namespace {

// How weights are compressed is not published. The bias has one value for each column of the result.
Tensor compress_dequant_meta(const Tensor& x1, const Tensor&, const Tensor&, const Tensor& bias, const Tensor&,
                             const OptionalTensor&, OptionalInt) {
  constexpr const char* kOp = "npu_matmul_compress_dequant";
  check_dims(kOp, "x1", x1, 2, 2);
  check_dims(kOp, "bias", bias, 1, 2);
  return x1.new_empty_symint({x1.sym_size(0), bias.sym_size(-1)}, x1.options().dtype(at::kHalf));
}

Tensor copy_of(const OptionalTensor& tensor, const Tensor& like) {
  return tensor ? tensor->clone() : like.new_empty({0});
}

std::tuple<Tensor, Tensor, Tensor, Tensor> weight_quant_preprocess(const Tensor& weight, const Tensor& weight_scale,
                                                                   int64_t, int64_t, int64_t,
                                                                   const OptionalTensor& weight_offset,
                                                                   const OptionalTensor& bias, OptionalInt,
                                                                   OptionalInt) {
  return {weight.clone(), weight_scale.clone(), copy_of(weight_offset, weight_scale), copy_of(bias, weight_scale)};
}

}  // namespace

void define_compressed_weights(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_matmul_compress_dequant(Tensor x1, Tensor x2, Tensor compress_index, Tensor bias, Tensor "
                "scale, *, Tensor? offsetW=None, int? offsetX=None) -> Tensor",
      .kernel = sizes_only(&compress_dequant_meta),
      .definition = "Product of an int8 matrix x1, [M, K], and a weight that a tool for Ascend compressed into x2 and "
                    "compress_index, plus bias, dequantised with scale. The format of compressed weights is not "
                    "published, so only the size of the result is known: [M, N] in float16, where N is the size of "
                    "the last dimension of bias.",
  });
  library.add({
      .schema = "npu::npu_weight_quant_preprocess(Tensor weight, Tensor weight_scale, int x_dtype, int weight_dtype, "
                "int weight_scale_dtype, Tensor? weight_offset=None, Tensor? bias=None, int? x_scale_dtype=None, int? "
                "k_group_size=0) -> (Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&weight_quant_preprocess),
      .definition = "Brings a quantised weight and its parameters into the form that matrix products take. On the "
                    "host they take them as they are, so that the results are copies of weight, weight_scale, "
                    "weight_offset and bias, with an empty tensor in the place of None. All other arguments are "
                    "ignored.",
  });
}

}  // namespace npugraph::npu_ops
