// SPDX-License-Identifier: Apache-2.0
#include "lower/quant.h"

#include "base/error.h"
#include "lower/arguments.h"
#include "lower/generated_node.h"
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
  if (node.op->name != "npugraph.gguf_linear") return false;
  const auto* x = tensor_argument(graph, node, 0);
  return x != nullptr && is_float(x->dtype) && x->sizes.size() == 2 && are_blocks(tensor_argument(graph, node, 1));
}

bool is_int8_product(const ir::Graph& graph, const ir::Node& node) {
  if (node.op->name != "aten._weight_int8pack_mm") return false;
  const ir::TensorType* x = tensor_argument(graph, node, 0);
  const ir::TensorType* weights = tensor_argument(graph, node, 1);
  const ir::TensorType* scales = tensor_argument(graph, node, 2);
  if (x == nullptr || weights == nullptr || scales == nullptr || !is_float(scales->dtype)) return false;
  const bool matrices = x->sizes.size() == 2 && weights->sizes.size() == 2 && scales->sizes.size() == 1;
  return matrices && is_float(x->dtype) && weights->dtype == DType::kI8;
}

bool is_int4_product(const ir::Graph& graph, const ir::Node& node) {
  if (node.op->name != "aten._weight_int4pack_mm_for_cpu") return false;
  const ir::TensorType* x = tensor_argument(graph, node, 0);
  const ir::TensorType* weights = tensor_argument(graph, node, 1);
  const ir::TensorType* scales = tensor_argument(graph, node, 3);
  const auto group = constant_argument(node, 2);
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
  if (node.op->name != "aten._int_mm") return false;
  const ir::TensorType* x = tensor_argument(graph, node, 0);
  const ir::TensorType* weights = tensor_argument(graph, node, 1);
  return x != nullptr && weights != nullptr && x->sizes.size() == 2 && weights->sizes.size() == 2 &&
         x->dtype == DType::kI8 && weights->dtype == DType::kI8 && weights->strides[0].is_int(1);
}

std::optional<GeneratedNode> choose_quantised_gather(const ir::Graph& graph, const ir::Node& node) {
  if (node.op->name != "npugraph.gguf_embedding") return {};
  const auto* indices = tensor_argument(graph, node, 1);
  if (!are_blocks(tensor_argument(graph, node, 0)) || indices == nullptr || indices->dtype != DType::kI64 ||
      !is_float(graph.value(node.results.front()).tensor().dtype))
    return {};
  return GeneratedNode{.kind = program::TaskKind::kLoop,
                       .name = "loop.gguf_embedding",
                       .text = cat(kHead, "rows ", std::get<std::string>(node.args[2])),
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
    return cat(kHead, "packed ", loop::print(*packing), " ", constant_argument(product, 2)->as_int(), "\n");
  }
  if (!is_quantised_product(graph, product)) return {};
  const bool int8 = std::get<Expr>(product.args[3]).value().as_bool();
  return cat(kHead, "linear ", std::get<std::string>(product.args[2]), int8 ? " int8\n" : "\n");
}

}  // namespace npugraph::lower
