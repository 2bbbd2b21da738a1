// SPDX-License-Identifier: Apache-2.0
#include "loop/gguf.h"
#include "ops/shapes/shapes.h"

namespace npugraph::ops::shapes {

namespace {

// A copy of the first argument in the type that argument `name` asks for.
Types in_type(const Call& call, std::string_view name, DType otherwise) {
  return only(copied(call, 0, named_or(call, name, otherwise)));
}

// Whether no dimension is expanded. For expanded tensors, eager and FakeTensor disagree on the layout of results that
// are quantised by channel.
bool has_own_places(const ir::TensorType* type) {
  if (type == nullptr) return false;
  for (size_t i = 0; i < type->sizes.size(); ++i) {
    if (type->strides[i].is_int(0) && !type->sizes[i].is_int(1)) return false;
  }
  return true;
}

}  // namespace

Types quantize(const Call& call) { return in_type(call, "dtype", DType::kI8); }

Types dequantize(const Call& call) { return in_type(call, "out_dtype", DType::kF32); }

Types quantize_channels(const Call& call) { return has_own_places(call.tensor(0)) ? quantize(call) : std::nullopt; }

Types dequantize_channels(const Call& call) { return has_own_places(call.tensor(0)) ? dequantize(call) : std::nullopt; }

Types gguf_embedding(const Call& call) {
  const auto* blocks = call.tensor(0);
  const auto* indices = call.tensor(1);
  const auto* name = std::get_if<std::string>(&call.args[2]);
  const auto* dtype = std::get_if<DType>(&call.args[3]);
  if (blocks == nullptr || indices == nullptr || name == nullptr || dtype == nullptr) return std::nullopt;
  const auto type = loop::block_type(*name);
  if (!type || blocks->sizes.size() != 2) return std::nullopt;
  const loop::BlockFormat& block = loop::format_of(*type);
  auto sizes = indices->sizes;
  sizes.push_back(Expr::make(ExprOp::kFloorDiv, {blocks->sizes[1], block.bytes}) * block.elements);
  return contiguous(*dtype, std::move(sizes), blocks->device);
}

// Products of torch_npu with plain operands: two matrices, of which x1 is [m, k] and x2 is [k, n].

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
