// SPDX-License-Identifier: Apache-2.0
#include "lower/generated/quant.h"

#include <initializer_list>
#include <utility>

#include "base/error.h"
#include "ir/text.h"
#include "lower/arguments.h"
#include "lower/generated/generated_node.h"
#include "tensor/shape.h"

namespace npugraph::lower {
namespace {

bool is_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16; }

bool are_blocks(const ir::TensorType* type) {
  return type != nullptr && type->dtype == DType::kU8 && type->sizes.size() == 2 && type->strides[1].is_int(1);
}

constexpr const char* kHead = "npugraph.quant 1 ";

// Operands of a product that a rule looks at, and what the rule says of them: its first complaint, empty if there is
// none.
class Obstacles {
 public:
  Obstacles(const ir::Graph& graph, std::initializer_list<std::pair<const char*, ir::ValueId>> operands) {
    for (const auto& [name, id] : operands) {
      types_.emplace_back(name, tensor_type(graph, id));
      if (types_.back().second == nullptr) refuse(name, "a tensor");
    }
  }

  // `fits` is asked for the operand's type, if all operands are tensors and nothing was refused before.
  template <typename Fits>
  void expect(size_t operand, const char* wanted, Fits fits) {
    const auto& [name, type] = types_[operand];
    if (text_.empty() && !fits(*type)) refuse(name, wanted, ir::to_text(*type));
  }
  void refuse(const char* name, const char* wanted, const std::string& got = "none") {
    if (text_.empty()) text_ = cat("no generated code: ", name, " is to be ", wanted, ", and is ", got);
  }
  const std::string& text() const { return text_; }

 private:
  std::vector<std::pair<const char*, const ir::TensorType*>> types_;
  std::string text_;
};

constexpr const char* kFloats = "of f32, bf16 or f16";

std::string int8_obstacle(const ir::Graph& graph, const ir::Node& node) {
  using Product = aten::_weight_int8pack_mm;
  Obstacles met(graph,
                {{"self", Product::self(node)}, {"mat2", Product::mat2(node)}, {"scales", Product::scales(node)}});
  met.expect(0, kFloats, [](const auto& x) { return is_float(x.dtype); });
  met.expect(1, "of i8", [](const auto& weights) { return weights.dtype == DType::kI8; });
  met.expect(2, kFloats, [](const auto& scales) { return is_float(scales.dtype); });
  for (const size_t matrix : {0, 1}) met.expect(matrix, "a matrix", [](const auto& x) { return x.sizes.size() == 2; });
  met.expect(2, "a vector", [](const auto& scales) { return scales.sizes.size() == 1; });
  return met.text();
}

std::string int4_obstacle(const ir::Graph& graph, const ir::Node& node) {
  using Product = aten::_weight_int4pack_mm_for_cpu;
  Obstacles met(graph, {{"self", Product::self(node)},
                        {"mat2", Product::mat2(node)},
                        {"qScaleAndZeros", Product::qScaleAndZeros(node)}});
  if (!met.text().empty()) return met.text();
  const ir::TensorType& x = *tensor_type(graph, Product::self(node));
  const ir::TensorType& weights = *tensor_type(graph, Product::mat2(node));
  met.expect(0, "a matrix of f32, bf16 or f16", [](const auto& x) { return is_float(x.dtype) && x.sizes.size() == 2; });
  met.expect(1, "a dense matrix of u8",
             [](const auto& w) { return w.dtype == DType::kU8 && w.sizes.size() == 2 && is_dense(w); });
  if (!met.text().empty()) return met.text();
  const Expr n = weights.sizes[0];
  const auto group = Product::qGroupSize.as_constant(node);
  const int64_t steps = x.sizes[1].as_int().value_or(0), size = group ? group->as_int() : 0;
  if (size != 32 && size != 64 && size != 128 && size != 256)
    met.refuse("qGroupSize", "32, 64, 128 or 256", group ? cat(size) : "no constant");
  met.expect(0, "of a known number of whole groups in a row",
             [&](const auto&) { return steps > 0 && steps % size == 0; });
  met.expect(1, "of rows of half as many bytes as self has columns, a multiple of 16",
             [&](const auto& w) { return w.sizes[1].is_int(steps / 2) && n.as_int().value_or(1) % 16 == 0; });
  met.expect(2, "dense, of the type of self, of sizes [groups, rows of mat2, 2]", [&](const auto& scales) {
    const std::vector<Expr> wanted = {steps / size, n, 2};
    return scales.dtype == x.dtype && scales.sizes == wanted && is_dense(scales);
  });
  return met.text();
}

std::string integer_obstacle(const ir::Graph& graph, const ir::Node& node) {
  using Product = aten::_int_mm;
  Obstacles met(graph, {{"self", Product::self(node)}, {"mat2", Product::mat2(node)}});
  met.expect(0, "of i8 or u8", [](const auto& x) { return x.dtype == DType::kI8 || x.dtype == DType::kU8; });
  met.expect(1, "of i8", [](const auto& weights) { return weights.dtype == DType::kI8; });
  met.expect(1, "contiguous along the sum", [](const auto& weights) { return weights.strides[0].is_int(1); });
  return met.text();
}

}  // namespace

bool is_quantised_product(const ir::Graph& graph, const ir::Node& node) {
  if (!own::gguf_linear::is(node)) return false;
  const auto* x = tensor_type(graph, own::gguf_linear::x(node));
  const auto* blocks = tensor_type(graph, own::gguf_linear::blocks(node));
  return x != nullptr && is_float(x->dtype) && x->sizes.size() == 2 && are_blocks(blocks);
}

bool is_int8_product(const ir::Graph& graph, const ir::Node& node) {
  return aten::_weight_int8pack_mm::is(node) && int8_obstacle(graph, node).empty();
}

bool is_int4_product(const ir::Graph& graph, const ir::Node& node) {
  return aten::_weight_int4pack_mm_for_cpu::is(node) && int4_obstacle(graph, node).empty();
}

bool is_integer_product(const ir::Graph& graph, const ir::Node& node) {
  return aten::_int_mm::is(node) && integer_obstacle(graph, node).empty();
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

std::string product_obstacle(const ir::Graph& graph, const ir::Node& node, const OperatorCatalog& catalog) {
  if (is_packed_otherwise(graph, node, catalog))
    return "the host packs weights of 4 bits in another way than generated code reads";
  if (aten::_weight_int8pack_mm::is(node)) return int8_obstacle(graph, node);
  if (aten::_weight_int4pack_mm_for_cpu::is(node)) return int4_obstacle(graph, node);
  return aten::_int_mm::is(node) ? integer_obstacle(graph, node) : "";
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
