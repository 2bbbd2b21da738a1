// SPDX-License-Identifier: Apache-2.0
#include "passes/attention/fuse_attention.h"

#include <algorithm>
#include <array>

#include "ops/operators.h"
#include "passes/memory_trace.h"
#include "passes/rewrite.h"
#include "tensor/shape.h"

namespace npugraph::passes {
namespace {

using Sizes = std::vector<Expr>;

// The nodes and values between the products.
struct Parts {
  ir::NodeId scores = ir::kNone;  // the first product
  ir::ValueId mask = ir::kNone;
  ir::NodeId masking = ir::kNone;
  double scale = 1;
  Sizes sizes;  // of the scores: four dimensions
};

bool is_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16; }

class Fuser {
 public:
  Fuser(ir::Graph& graph, Replacements& replacements)
      : graph_(graph), replacements_(replacements), trace_(graph), uses_(ir::find_uses(graph)) {}

  bool fuse(ir::NodeId id) {
    const auto parts = find_parts(id);
    if (!parts || !fits(*parts, id) || graph_.node(parts->scores).section != graph_.node(id).section) return false;
    return replace(*parts, id);
  }

 private:
  const ir::TensorType& type(ir::ValueId id) const { return graph_.value(id).tensor(); }
  const ir::Node* producer(ir::ValueId id) const {
    const bool made = id != ir::kNone && graph_.value(id).is_tensor() && graph_.value(id).def != ir::kNone;
    return made ? &graph_.node(graph_.value(id).def) : nullptr;
  }
  // Whether the snapshot knows the value and one node reads it.
  bool has_one_reader(ir::ValueId id) const {
    return static_cast<size_t>(id) < uses_.users.size() && uses_.users[id].size() == 1 && uses_.output_uses[id] == 0;
  }

  // Follows views that keep all elements in their order, back to their base.
  ir::ValueId through_views(ir::ValueId id) const {
    for (const ir::Node* node = producer(id); node != nullptr && is_free_view(*node) && has_one_reader(id);
         node = producer(id)) {
      const ir::ValueId base = ir::operands(*node).front();
      if (!graph_.value(base).is_tensor() || type(base).dtype != type(id).dtype) break;
      const bool dense = is_contiguous(type(id).sizes, type(id).strides) &&
                         is_contiguous(type(base).sizes, type(base).strides) &&
                         numel(type(id).sizes) == numel(type(base).sizes);
      if (!dense) break;
      id = base;
    }
    return id;
  }

  // Also follows copies, and conversions between floats.
  ir::ValueId through_copies(ir::ValueId id) const {
    while (true) {
      id = through_views(id);
      const ir::Node* node = producer(id);
      if (!ops::is_any<aten::clone, aten::_to_copy>(node) || !has_one_reader(id)) return id;
      const ir::ValueId from = ops::as_value(arg::self(*node));
      if (!graph_.value(from).is_tensor() || !is_float(type(from).dtype) || type(from).sizes != type(id).sizes)
        return id;
      id = from;
    }
  }

  std::optional<Parts> find_parts(ir::NodeId id) const {
    using aten::_softmax, aten::bmm;
    if (!bmm::is(graph_.node(id))) return {};
    ir::ValueId at = through_copies(bmm::self(graph_.node(id)));
    const ir::Node* softmax = producer(at);
    if (!_softmax::is(softmax) || !has_one_reader(at)) return {};
    Parts parts{.sizes = type(at).sizes};
    const auto dim = _softmax::dim.as_int(*softmax);
    const auto rank = static_cast<int64_t>(parts.sizes.size());
    if (!dim || (*dim != -1 && *dim != rank - 1) || (rank != 3 && rank != 4)) return {};
    at = through_copies(_softmax::self(*softmax));
    at = take_mask(at, parts);
    at = through_copies(at);
    at = take_scale(at, parts);
    at = through_copies(at);
    const ir::Node* product = producer(at);
    if (!bmm::is(product) || !has_one_reader(at)) return {};
    parts.scores = graph_.value(at).def;
    if (rank == 3) parts.sizes.insert(parts.sizes.begin(), Expr(1));
    return parts;
  }

  // If `id` is a sum of scores and a mask, returns the scores and records the mask; else returns `id`.
  ir::ValueId take_mask(ir::ValueId id, Parts& parts) const {
    using aten::add_Tensor;
    const ir::Node* node = producer(id);
    if (!add_Tensor::is(node) || add_Tensor::alpha.as_int(*node) != 1 || !has_one_reader(id)) return id;
    const ir::ValueId left = add_Tensor::self(*node), right = add_Tensor::other(*node);
    if (left == ir::kNone || right == ir::kNone || !graph_.value(left).is_tensor() || !graph_.value(right).is_tensor())
      return id;
    // The scores are the operand that a product made and that has no other reader.
    const bool swapped = !leads_to_product(left);
    parts.mask = swapped ? left : right;
    parts.masking = graph_.value(id).def;
    return swapped ? right : left;
  }

  bool leads_to_product(ir::ValueId id) const {
    Parts ignored;
    return aten::bmm::is(producer(through_copies(take_scale(through_copies(id), ignored))));
  }

  ir::ValueId take_scale(ir::ValueId id, Parts& parts) const {
    const ir::Node* node = producer(id);
    if (!ops::is_any<aten::mul_Tensor, aten::div_Tensor>(node) || !has_one_reader(id)) return id;
    const auto number = ops::as_constant(arg::other(*node));
    const ir::ValueId scaled = ops::as_value(arg::self(*node));
    if (!number || scaled == ir::kNone) return id;
    const bool divides = aten::div_Tensor::is(node);
    const double factor = number->as_float();
    if (divides && factor == 0) return id;
    parts.scale = divides ? 1 / factor : factor;
    return scaled;
  }

  bool fits(const Parts& parts, ir::NodeId id) const {
    using aten::bmm;
    const ir::Node &first = graph_.node(parts.scores), &last = graph_.node(id);
    const ir::ValueId q = bmm::self(first), k = bmm::mat2(first), v = bmm::mat2(last);
    for (const ir::ValueId operand : {q, k, v}) {
      if (!graph_.value(operand).is_tensor() || type(operand).dtype != type(q).dtype) return false;
    }
    if (!is_float(type(q).dtype)) return false;
    const Sizes of_product{parts.sizes[0] * parts.sizes[1], parts.sizes[2], parts.sizes[3]};
    if (type(first.results[0]).sizes != of_product) return false;
    if (type(bmm::self(last)).sizes != of_product) return false;
    for (const ir::ValueId operand : {q, k}) {
      if (is_written_between(operand, parts.scores, id)) return false;
    }
    return parts.mask == ir::kNone || fits_scores(parts, id);
  }

  bool fits_scores(const Parts& parts, ir::NodeId id) const {
    const ir::TensorType& mask = type(parts.mask);
    if (!is_float(mask.dtype) || (mask.sizes.size() != 2 && mask.sizes.size() != 4)) return false;
    return broadcasts_to(mask.sizes, parts.sizes) && !is_written_between(parts.mask, parts.masking, id);
  }

  bool is_written_between(ir::ValueId id, ir::NodeId first, ir::NodeId last) const {
    // Values that were added after the snapshot count as written.
    return static_cast<size_t>(id) >= uses_.users.size() ||
           trace_.is_accessed(id, trace_.position(first), trace_.position(last), MemoryTrace::Kind::kWrite);
  }

  // Insert views of x before `before`; kNone if their place is not known.
  ir::ValueId insert_view(ir::NodeId before, ir::ValueId x, const Sizes& sizes) {
    return insert_before(graph_, before, aten::view::op(), {TensorRef{x}, sizes}, graph_.value(x).name);
  }
  ir::ValueId insert_transpose(ir::NodeId before, ir::ValueId x) {
    return insert_before(graph_, before, aten::transpose_int::op(), {TensorRef{x}, Expr(1), Expr(2)},
                         graph_.value(x).name);
  }

  // Views [b * h, rows, size] as [b, h, rows, size].
  ir::ValueId insert_heads(ir::NodeId before, ir::ValueId x, const Sizes& scores) {
    const Sizes sizes{scores[0], scores[1], type(x).sizes[1], type(x).sizes[2]};
    return insert_view(before, x, sizes);
  }

  // The copy of the result to [b, rows, h, size], if the result has no other use; else kNone.
  ir::ValueId find_transposed_copy(ir::ValueId result, const Sizes& scores) const {
    if (!has_one_reader(result)) return ir::kNone;
    const ir::Node& heads = graph_.node(uses_.users[result].front());
    const Expr size = type(result).sizes[2];
    if (!is_free_view(heads) || type(heads.results[0]).sizes != Sizes{scores[0], scores[1], scores[2], size})
      return ir::kNone;
    if (!has_one_reader(heads.results[0])) return ir::kNone;
    const ir::Node& transposed = graph_.node(uses_.users[heads.results[0]].front());
    if (!aten::transpose_int::is(transposed) || !has_one_reader(transposed.results[0])) return ir::kNone;
    const ir::Node& copy = graph_.node(uses_.users[transposed.results[0]].front());
    const Sizes wanted{scores[0], scores[2], scores[1], size};
    if (!aten::clone::is(copy) || type(copy.results[0]).sizes != wanted) return ir::kNone;
    return is_contiguous(wanted, type(copy.results[0]).strides) ? copy.results[0] : ir::kNone;
  }

  bool replace(const Parts& parts, ir::NodeId id) {
    using aten::bmm;
    const ir::Node first = graph_.node(parts.scores), last = graph_.node(id);
    const ir::ValueId result = last.results[0];
    const ir::ValueId transposed = insert_transpose(id, bmm::mat2(first));
    if (transposed == ir::kNone) return false;
    const ir::ValueId q = insert_heads(id, bmm::self(first), parts.sizes);
    const ir::ValueId k = insert_heads(id, transposed, parts.sizes);
    const ir::ValueId v = insert_heads(id, bmm::mat2(last), parts.sizes);
    if (q == ir::kNone || k == ir::kNone || v == ir::kNone) return false;

    const ir::ValueId copy = find_transposed_copy(result, parts.sizes);
    ir::TensorType out = type(result);
    out.sizes = {parts.sizes[0], parts.sizes[1], parts.sizes[2], type(result).sizes[2]};
    out.strides = contiguous_strides(out.sizes);
    if (copy != ir::kNone) {
      out.strides = type(copy).strides;
      std::swap(out.strides[1], out.strides[2]);
    }
    const Attr mask = parts.mask == ir::kNone ? Attr(None{}) : Attr(TensorRef{parts.mask});
    const auto flag = [](bool value) { return Expr::constant(Scalar::of_bool(value)); };
    ir::Node attention{.op = &own::attention::op(), .section = last.section, .origin = last.origin};
    attention.args = {
        TensorRef{q}, TensorRef{k}, TensorRef{v}, mask,       None{},
        None{},       None{},       flag(false),  flag(true), Expr::constant(Scalar::of_float(parts.scale))};
    const ir::NodeId made = graph_.insert_before(id, std::move(attention), {out}, graph_.value(result).name);
    const ir::ValueId value = graph_.node(made).results[0];
    if (copy != ir::kNone) {
      const ir::ValueId by_rows = insert_transpose(id, value);
      if (by_rows != ir::kNone && type(by_rows) == type(copy)) {
        replacements_.replace(copy, by_rows);
        return true;
      }
    }
    const ir::ValueId flat = insert_view(id, value, type(result).sizes);
    if (flat == ir::kNone || type(flat) != type(result)) return false;
    replacements_.replace(result, flat);
    return true;
  }

  ir::Graph& graph_;
  Replacements& replacements_;
  const MemoryTrace trace_;
  const ir::Uses uses_;
};

}  // namespace

int fuse_attention(ir::Graph& graph, PassContext& context) {
  if (!context.fuses || context.training) return 0;
  Replacements replacements(graph);
  Fuser fuser(graph, replacements);
  return rewrite_each(graph, replacements, context, "is attention, of which no scores are stored",
                      [&](ir::NodeId id) { return aten::bmm::is(graph.node(id)) && fuser.fuse(id); });
}

}  // namespace npugraph::passes
