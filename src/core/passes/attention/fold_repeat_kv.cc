// SPDX-License-Identifier: Apache-2.0
#include "passes/attention/fold_repeat_kv.h"

#include <optional>

#include "passes/attention/flash.h"
#include "passes/memory_trace.h"
#include "passes/rewrite.h"
#include "tensor/shape.h"

namespace npugraph::passes {
namespace {

// A tensor [b, h, s, d] and the number of times that each of its heads was repeated.
struct Repeat {
  ir::ValueId source = ir::kNone;
  Expr times;
};

class Matcher {
 public:
  Matcher(const ir::Graph& graph, const MemoryTrace& trace) : graph_(graph), trace_(trace) {}

  // Finds the source of `repeated` [b, h * n, s, d], which the node at `position` reads.
  std::optional<Repeat> match(ir::ValueId repeated, int32_t position) const {
    const ir::TensorType* type = tensor(repeated);
    if (type == nullptr || type->sizes.size() != 4 || !is_row_major_whole(repeated)) return std::nullopt;
    const ir::ValueId copy = trace_.root(repeated);
    const ir::NodeId copying = graph_.value(copy).def;
    const ir::ValueId expanded = copied_operand(copying);
    if (expanded == ir::kNone || trace_.is_accessed(copy, MemoryTrace::kStart, position, MemoryTrace::Kind::kWrite)) {
      return std::nullopt;
    }
    const auto times = times_repeated(*type, *tensor(expanded));
    if (!times) return std::nullopt;
    const ir::ValueId source = find_source(expanded);
    if (source == ir::kNone) return std::nullopt;
    if (trace_.is_accessed(source, trace_.position(copying), position, MemoryTrace::Kind::kWrite)) return std::nullopt;
    return Repeat{source, *times};
  }

 private:
  const ir::TensorType* tensor(ir::ValueId id) const { return std::get_if<ir::TensorType>(&graph_.value(id).type); }

  // Whether `id` is all of a fresh, dense memory in row-major order.
  bool is_row_major_whole(ir::ValueId id) const {
    const ir::ValueId root = trace_.root(id);
    if (!trace_.is_fresh(root) || !trace_.is_whole(id) || tensor(root) == nullptr) return false;
    return is_contiguous(tensor(id)->sizes, tensor(id)->strides) &&
           is_contiguous(tensor(root)->sizes, tensor(root)->strides);
  }

  // The operand that a node clones, if it has five dimensions, the same as the clone; else kNone.
  ir::ValueId copied_operand(ir::NodeId id) const {
    if (id == ir::kNone || !aten::clone::is(graph_.node(id))) return ir::kNone;
    const ir::ValueId operand = aten::clone::self(graph_.node(id));
    const ir::TensorType* type = tensor(operand);
    const bool fits =
        type != nullptr && type->sizes.size() == 5 && type->sizes == tensor(graph_.node(id).results[0])->sizes;
    return fits ? operand : ir::kNone;
  }

  // n, when `expanded` is [b, h, n, s, d] with n repetitions of the same memory, and `repeated` is [b, h * n, s, d].
  static std::optional<Expr> times_repeated(const ir::TensorType& repeated, const ir::TensorType& expanded) {
    const std::vector<Expr>& from = expanded.sizes;
    const std::vector<Expr>& to = repeated.sizes;
    const bool same = from[0] == to[0] && from[1] * from[2] == to[1] && from[3] == to[2] && from[4] == to[3];
    if (!same || !expanded.strides[2].is_int(0) || !expanded.strides[4].is_int(1)) return std::nullopt;
    return from[2];
  }

  // The base in the chain of views of `expanded` that equals it without its dimension 2, or kNone.
  ir::ValueId find_source(ir::ValueId expanded) const {
    ir::TensorType wanted = *tensor(expanded);
    wanted.sizes.erase(wanted.sizes.begin() + 2);
    wanted.strides.erase(wanted.strides.begin() + 2);
    const auto& aliases = trace_.aliases();
    const auto& place = aliases.placement(expanded);
    if (!place.placed) return ir::kNone;
    ir::NodeId def = graph_.value(expanded).def;
    while (def != ir::kNone && is_free_view(graph_.node(def))) {
      const ir::ValueId base = ir::operands(graph_.node(def)).front();
      const auto& base_place = aliases.placement(base);
      if (tensor(base) && *tensor(base) == wanted && base_place.placed && base_place.byte_offset == place.byte_offset) {
        return base;
      }
      def = graph_.value(base).def;
    }
    return ir::kNone;
  }

  const ir::Graph& graph_;
  const MemoryTrace& trace_;
};

}  // namespace

int fold_repeat_kv(ir::Graph& graph, PassContext& context) {
  const MemoryTrace trace(graph);
  const Matcher matcher(graph, trace);
  int hits = 0;
  for (const ir::NodeId id : graph.order()) {
    ir::Node& node = graph.node(id);
    if (node.dead || !ops::is_any<Flash, own::attention>(node)) continue;
    Attr& key = arg::key(node);
    Attr& value = arg::value(node);
    const auto keys = matcher.match(ops::as_value(key), trace.position(id));
    const auto values = matcher.match(ops::as_value(value), trace.position(id));
    if (!keys || !values || keys->times != values->times) continue;
    key = TensorRef{keys->source};
    value = TensorRef{values->source};
    context.remark(node, "reads grouped keys and values without repeating them");
    ++hits;
  }
  return hits;
}

}  // namespace npugraph::passes
