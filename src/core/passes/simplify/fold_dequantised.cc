// SPDX-License-Identifier: Apache-2.0
#include "passes/simplify/fold_dequantised.h"

#include <utility>

#include "base/error.h"
#include "ops/operators.h"
#include "ops/table.h"
#include "passes/memory_trace.h"
#include "passes/rewrite.h"
#include "tensor/shape.h"

namespace npugraph::passes {
namespace {

// Weights [n, k] that `node` dequantised, or converted if there are no scales.
struct Weights {
  ir::NodeId node = ir::kNone;
  ir::ValueId codes = ir::kNone, scales = ir::kNone, zeros = ir::kNone;
};

class DequantisedFolder {
 public:
  DequantisedFolder(ir::Graph& graph, Replacements& replacements)
      : graph_(graph), replacements_(replacements), trace_(graph), known_(graph.num_values()) {}

  bool fold(ir::NodeId id) {
    using aten::addmm, aten::mm;
    const ir::Node& node = graph_.node(id);
    const bool adds = addmm::is(node);
    if (!adds && !mm::is(node)) return false;
    if (adds && !(is_one(addmm::beta.attr(node)) && is_one(addmm::alpha.attr(node)))) return false;
    const ir::ValueId x = adds ? addmm::mat1(node) : mm::self(node), bias = adds ? addmm::self(node) : ir::kNone;
    const auto weights = find_weights(ops::as_value(arg::mat2(node)), id);
    const ir::ValueId result = node.results[0];
    if (!weights || (adds && !(is_f32(bias) && is_f32(result)))) return false;
    const ir::ValueId scales =
        weights->scales == ir::kNone ? insert_ones(id, *weights, type(x).dtype) : weights->scales;
    // The types are given: if sizes may be 1, rules for several operands cannot infer the order of the dimensions.
    ir::ValueId y = insert<aten::_weight_int8pack_mm>(id, {TensorRef{x}, TensorRef{weights->codes}, TensorRef{scales}},
                                                      type(result));
    if (weights->zeros != ir::kNone) y = take_off(id, y, x, *weights);
    if (adds) y = insert<aten::add_Tensor>(id, {TensorRef{y}, TensorRef{bias}, Expr(1)}, type(y));
    replacements_.replace(result, y);
    return true;
  }

 private:
  const ir::TensorType& type(ir::ValueId id) const { return graph_.value(id).tensor(); }
  bool is_f32(ir::ValueId id) const {
    return id != ir::kNone && graph_.value(id).is_tensor() && type(id).dtype == DType::kF32;
  }
  static bool is_one(const Attr& attr) {
    const auto number = ops::as_constant(attr);
    return number && number->as_float() == 1;
  }
  const ir::Node* producer(ir::ValueId id) const {
    const bool made = id != ir::kNone && graph_.value(id).is_tensor() && graph_.value(id).def != ir::kNone;
    return made ? &graph_.node(graph_.value(id).def) : nullptr;
  }

  // The dense base [n, k] of a free view [k, n]; kNone for other values.
  ir::ValueId transposed(ir::ValueId id) const {
    const ir::Node* view = producer(id);
    if (view == nullptr || !is_free_view(*view)) return ir::kNone;
    const ir::ValueId base = ir::operands(*view).front();
    return graph_.value(base).is_tensor() && is_transpose(type(id), type(base)) ? base : ir::kNone;
  }
  static bool is_transpose(const ir::TensorType& x, const ir::TensorType& base) {
    const auto& sizes = base.sizes;
    return x.dtype == base.dtype && sizes.size() == 2 && is_contiguous(sizes, base.strides) &&
           x.sizes == std::vector<Expr>{sizes[1], sizes[0]} && x.strides == std::vector<Expr>{Expr(1), sizes[1]};
  }

  // The weights of a second factor [k, n], whose element type is that of the product.
  std::optional<Weights> find_weights(ir::ValueId factor, ir::NodeId product) const {
    using quantized_decomposed::dequantize_per_channel, aten::_to_copy;
    const ir::ValueId dense = transposed(factor), made = dense == ir::kNone ? factor : dense;
    const ir::Node* node = producer(made);
    if (!ops::is_any<dequantize_per_channel, _to_copy>(node)) return {};
    const bool dequantizes = dequantize_per_channel::is(node);
    Weights found{.node = graph_.value(made).def,
                  .codes = dequantizes ? dequantize_per_channel::input(*node) : _to_copy::self(*node)};
    if (dequantizes) {
      found.scales = dequantize_per_channel::scales(*node);
      found.zeros = dequantize_per_channel::zero_points(*node);
      const bool by_rows = dense != ir::kNone && dequantize_per_channel::axis.as_int(*node) == 0;
      if (!by_rows || !is_f32(dense) || !is_f32(found.scales) || !is_absent_or_integer(found.zeros)) return {};
    } else if (dense == ir::kNone) {
      // The view comes before the conversion.
      found.codes = transposed(found.codes);
      if (type(factor).strides != std::vector<Expr>{Expr(1), type(factor).sizes[0]}) return {};
    }
    if (found.codes == ir::kNone || !is_float(type(factor).dtype)) return {};
    const ir::TensorType& codes = type(found.codes);
    if (codes.dtype != DType::kI8 || codes.device != type(factor).device || !is_contiguous(codes.sizes, codes.strides))
      return {};
    for (const ir::ValueId of_rows : {found.scales, found.zeros}) {
      if (of_rows != ir::kNone && type(of_rows).sizes != std::vector<Expr>{codes.sizes[0]}) return {};
    }
    for (const ir::ValueId operand : {found.codes, found.scales, found.zeros}) {
      if (operand != ir::kNone && is_written_between(operand, found.node, product)) return {};
    }
    return found;
  }

  static bool is_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16; }
  bool is_absent_or_integer(ir::ValueId zeros) const {
    return zeros == ir::kNone || type(zeros).dtype == DType::kI64 || type(zeros).dtype == DType::kI32;
  }

  bool is_written_between(ir::ValueId id, ir::NodeId first, ir::NodeId last) const {
    // Values that were added after the snapshot count as written.
    return static_cast<size_t>(id) >= known_ ||
           trace_.is_accessed(id, trace_.position(first), trace_.position(last), MemoryTrace::Kind::kWrite);
  }

  ir::ValueId insert_ones(ir::NodeId before, const Weights& weights, DType dtype) {
    return insert<aten::full>(
        before, {std::vector<Expr>{type(weights.codes).sizes[0]}, Expr(1), dtype, None{}, None{}, None{}});
  }

  template <typename Operator>
  ir::ValueId insert(ir::NodeId before, std::vector<Attr> args, const ir::TensorType& made) {
    return insert_before(graph_, before, Operator::op(), std::move(args), made, "codes");
  }
  template <typename Operator>
  ir::ValueId insert(ir::NodeId before, std::vector<Attr> args) {
    const ir::ValueId made = insert_before(graph_, before, Operator::op(), std::move(args), "codes");
    NG_CHECK(made != ir::kNone, Operator::op().name, " has no rule for its type");
    return made;
  }

  // y minus the product of x and the scaled zero points; y itself where these are 0.
  ir::ValueId take_off(ir::NodeId before, ir::ValueId y, ir::ValueId x, const Weights& weights) {
    const auto of = [](ir::ValueId id) { return TensorRef{id}; };
    const Expr keep = Expr::constant(Scalar::of_bool(true));
    // The product of integers and floats converts the integers.
    const ir::ValueId zeros = insert<aten::mul_Tensor>(before, {of(weights.zeros), of(weights.scales)});
    const ir::ValueId sums = insert<aten::sum_dim_IntList>(before, {of(x), std::vector<Expr>{Expr(1)}, keep, None{}});
    const ir::ValueId products = insert<aten::mul_Tensor>(before, {of(sums), of(zeros)}, type(y));
    const ir::ValueId less = insert<aten::sub_Tensor>(before, {of(y), of(products), Expr(1)}, type(y));
    const ir::ValueId nothing = insert<aten::eq_Scalar>(before, {of(zeros), Expr(0)});
    return insert<aten::where_self>(before, {of(nothing), of(y), of(less)}, type(y));
  }

  ir::Graph& graph_;
  Replacements& replacements_;
  const MemoryTrace trace_;
  const size_t known_;  // number of values in the snapshot
};

}  // namespace

int fold_dequantised(ir::Graph& graph, PassContext& context) {
  if (!context.fuses) return 0;
  Replacements replacements(graph);
  DequantisedFolder folder(graph, replacements);
  return rewrite_each(graph, replacements, context, "reads the codes of its weights",
                      [&](ir::NodeId id) { return folder.fold(id); });
}

}  // namespace npugraph::passes
