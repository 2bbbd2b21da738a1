// SPDX-License-Identifier: Apache-2.0
// Products of torch_npu with plain operands: two matrices, of which x1 is [m, k] and x2 is [k, n].
#include "ops/shapes/shapes.h"

namespace npugraph::ops::shapes {
namespace {

Types matrix_product(const ir::TensorType* x1, const ir::TensorType* x2, DType dtype) {
  // Integers of 32 bits hold eight codes each, and other ranks may be private formats.
  const bool is_plain = x1 != nullptr && x2 != nullptr && x1->sizes.size() == 2 && x2->sizes.size() == 2 &&
                        x2->dtype == DType::kI8 && x1->sizes[1] == x2->sizes[0];
  return is_plain ? contiguous(dtype, {x1->sizes[0], x2->sizes[1]}, x1->device) : std::nullopt;
}

}  // namespace

Types npu_quant_matmul(const Call& call) {
  for (const char* name : {"output_dtype", "x1_dtype", "x2_dtype"}) {
    if (!call.is_none(*call.find(name))) return std::nullopt;
  }
  const auto* x1 = call.tensor(0);
  return x1 == nullptr || x1->dtype != DType::kI8 ? std::nullopt : matrix_product(x1, call.tensor(1), DType::kI8);
}

Types npu_weight_quant_batchmatmul(const Call& call) {
  const auto* x = call.tensor(0);
  if (x == nullptr || !call.is_none(*call.find("weight_dtype"))) return std::nullopt;
  return matrix_product(x, call.tensor(1), call.is_none(*call.find("quant_scale")) ? x->dtype : DType::kI8);
}

}  // namespace npugraph::ops::shapes
