// SPDX-License-Identifier: Apache-2.0
#include "lower/generated/quant.h"

#include "base/error.h"
#include "lower/arguments.h"
#include "lower/generated/generated_node.h"
#include "tensor/shape.h"

namespace npugraph::lower {
namespace {

bool is_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16; }

bool are_blocks(const ir::TensorType* type) {
  return type != nullptr && type->dtype == DType::kU8 && type->sizes.size() == 2 && type->strides[1].is_int(1);
}

bool is_dense(const ir::TensorType& type) { return is_contiguous(type.sizes, type.strides); }

constexpr const char* kHead = "npugraph.quant 1 ";

}  // namespace

bool is_quantised_product(const ir::Graph& graph, const ir::Node& node) {
  if (!own::gguf_linear::is(node)) return false;
  const auto* x = tensor_type(graph, own::gguf_linear::x(node));
  const auto* blocks = tensor_type(graph, own::gguf_linear::blocks(node));
  return x != nullptr && is_float(x->dtype) && x->sizes.size() == 2 && are_blocks(blocks);
}

bool is_int8_product(const ir::Graph& graph, const ir::Node& node) {
  using Product = aten::_weight_int8pack_mm;
  if (!Product::is(node)) return false;
  const ir::TensorType* x = tensor_type(graph, Product::self(node));
  const ir::TensorType* weights = tensor_type(graph, Product::mat2(node));
  const ir::TensorType* scales = tensor_type(graph, Product::scales(node));
  if (x == nullptr || weights == nullptr || scales == nullptr || !is_float(scales->dtype)) return false;
  const bool matrices = x->sizes.size() == 2 && weights->sizes.size() == 2 && scales->sizes.size() == 1;
  return matrices && is_float(x->dtype) && weights->dtype == DType::kI8;
}

bool is_int4_product(const ir::Graph& graph, const ir::Node& node) {
  using Product = aten::_weight_int4pack_mm_for_cpu;
  if (!Product::is(node)) return false;
  const ir::TensorType* x = tensor_type(graph, Product::self(node));
  const ir::TensorType* weights = tensor_type(graph, Product::mat2(node));
  const ir::TensorType* scales = tensor_type(graph, Product::qScaleAndZeros(node));
  const auto group = Product::qGroupSize.as_constant(node);
  if (x == nullptr || weights == nullptr || scales == nullptr || !group) return false;
  if (!is_float(x->dtype) || scales->dtype != x->dtype || weights->dtype != DType::kU8) return false;
  if (x->sizes.size() != 2 || weights->sizes.size() != 2 || scales->sizes.size() != 3) return false;
  const Expr n = weights->sizes[0], k = x->sizes[1];
  const int64_t steps = k.as_int().value_or(0), size = group->as_int();
  const bool known_group = size == 32 || size == 64 || size == 128 || size == 256;
  if (!known_group || steps == 0 || steps % size != 0 || n.as_int().value_or(1) % 16 != 0) return false;
  const std::vector<Expr> scales_wanted = {steps / size, n, 2};
  return weights->sizes[1].is_int(steps / 2) && scales->sizes == scales_wanted && is_dense(*weights) &&
         is_dense(*scales);
}

bool is_integer_product(const ir::Graph& graph, const ir::Node& node) {
  if (!aten::_int_mm::is(node)) return false;
  const ir::TensorType* x = tensor_type(graph, aten::_int_mm::self(node));
  const ir::TensorType* weights = tensor_type(graph, aten::_int_mm::mat2(node));
  return x != nullptr && weights != nullptr && x->sizes.size() == 2 && weights->sizes.size() == 2 &&
         x->dtype == DType::kI8 && weights->dtype == DType::kI8 && weights->strides[0].is_int(1);
}

std::optional<GeneratedNode> choose_quantised_gather(const ir::Graph& graph, const ir::Node& node) {
  using Embedding = own::gguf_embedding;
  if (!Embedding::is(node)) return {};
  const auto* indices = tensor_type(graph, Embedding::indices(node));
  if (!are_blocks(tensor_type(graph, Embedding::blocks(node))) || indices == nullptr || indices->dtype != DType::kI64 ||
      !is_float(graph.value(node.results.front()).tensor().dtype))
    return {};
  return GeneratedNode{.kind = program::TaskKind::kLoop,
                       .name = "loop.gguf_embedding",
                       .text = cat(kHead, "rows ", *Embedding::type(node)),
                       .reads = ir::operands(node),
                       .writes = {node.results.front()}};
}

bool is_packed_otherwise(const ir::Graph& graph, const ir::Node& node, const OperatorCatalog& catalog) {
  return is_int4_product(graph, node) && !catalog.int4_packing();
}

std::string product_head(const ir::Graph& graph, const ir::Node& product, const OperatorCatalog& catalog) {
  if (is_int4_product(graph, product)) {
    const auto packing = catalog.int4_packing();
    NG_CHECK(packing, "the host's packing of weights is not known");
    const int64_t group = *aten::_weight_int4pack_mm_for_cpu::qGroupSize.as_int(product);
    return cat(kHead, "packed ", loop::print(*packing), " ", group, "\n");
  }
  if (!is_quantised_product(graph, product)) return {};
  const bool int8 = own::gguf_linear::int8.as_constant(product)->as_bool();
  return cat(kHead, "linear ", *own::gguf_linear::type(product), int8 ? " int8\n" : "\n");
}

}  // namespace npugraph::lower
