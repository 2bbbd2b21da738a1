// SPDX-License-Identifier: Apache-2.0
#include "passes/attention/drop_head_copies.h"

#include <algorithm>

#include "passes/attention/flash.h"
#include "passes/memory_trace.h"
#include "passes/rewrite.h"
#include "tensor/shape.h"

namespace npugraph::passes {
namespace {

class Dropper {
 public:
  explicit Dropper(ir::Graph& graph) : graph_(graph), trace_(graph), uses_(ir::find_uses(graph)) {}

  int run(PassContext& context) {
    int hits = 0;
    for (const ir::NodeId id : graph_.order()) {
      const ir::Node& node = graph_.node(id);
      if (node.dead || !ops::is_any<Flash, own::attention>(node)) continue;
      bool dropped = false;
      for (const auto& argument : {arg::key, arg::value}) dropped |= drop(id, argument);
      // The result is laid out as the queries are.
      if (Flash::is(node) && may_move(node) && drop(id, arg::query)) {
        move_result(node);
        dropped = true;
      }
      if (!dropped) continue;
      context.remark(node, "reads heads without a copy");
      ++hits;
    }
    return hits;
  }

 private:
  const ir::TensorType* tensor(ir::ValueId id) const { return std::get_if<ir::TensorType>(&graph_.value(id).type); }
  ir::TensorType& tensor(ir::ValueId id) { return std::get<ir::TensorType>(graph_.value(id).type); }

  // Whether `type` is [b, h, s, d] with the heads of a row side by side. The rows may be parts of longer rows.
  static bool has_heads_in_rows(const ir::TensorType& type) {
    return type.sizes.size() == 4 && type.strides[3].is_int(1) && type.strides[1] == type.sizes[3] &&
           !type.sizes[1].is_int(1) && !type.sizes[2].is_int(1);
  }

  // The tensor that attention may read instead of the operand, which is a copy of it; else kNone.
  ir::ValueId original_of(ir::NodeId attention, const ops::ArgumentName& argument) const {
    const ir::ValueId copy = ops::as_value(argument(graph_.node(attention)));
    const ir::NodeId copying = copy == ir::kNone ? ir::kNone : graph_.value(copy).def;
    if (copying == ir::kNone || !makes_contiguous(graph_.node(copying))) return ir::kNone;
    const ir::ValueId original = aten::clone::self(graph_.node(copying));
    if (tensor(original) == nullptr || !has_heads_in_rows(*tensor(original))) return ir::kNone;
    const int32_t from = trace_.position(copying), to = trace_.position(attention);
    const auto is_written = [&](ir::ValueId id, int32_t after) {
      return trace_.is_accessed(id, after, to, MemoryTrace::Kind::kWrite);
    };
    return is_written(original, from) || is_written(copy, from) ? ir::kNone : original;
  }

  bool drop(ir::NodeId attention, const ops::ArgumentName& argument) {
    const ir::ValueId original = original_of(attention, argument);
    if (original != ir::kNone) argument(graph_.node(attention)) = TensorRef{original};
    return original != ir::kNone;
  }

  // Whether `fits` is true for all readers of `value`, and the graph does not return it.
  template <typename Fits>
  bool all_read(ir::ValueId value, const Fits& fits) const {
    const auto& users = uses_.users[value];
    return uses_.output_uses[value] == 0 &&
           std::all_of(users.begin(), users.end(), [&](ir::NodeId user) { return fits(graph_.node(user)); });
  }

  // Whether only transposed views read the result, and only copies read these views.
  bool may_move(const ir::Node& attention) const {
    using aten::transpose_int;
    return all_read(attention.results[0], [&](const ir::Node& view) {
      const bool fits =
          transpose_int::is(view) && transpose_int::dim0.as_int(view) == 1 && transpose_int::dim1.as_int(view) == 2;
      return fits && all_read(view.results[0], makes_contiguous);
    });
  }

  void move_result(const ir::Node& attention) {
    ir::TensorType& type = tensor(attention.results[0]);
    std::vector<Expr> rows = type.sizes;
    std::swap(rows[1], rows[2]);
    const std::vector<Expr> strides = contiguous_strides(rows);
    type.strides = strides;
    std::swap(type.strides[1], type.strides[2]);
    for (const ir::NodeId view : uses_.users[attention.results[0]])
      tensor(graph_.node(view).results[0]).strides = strides;
  }

  ir::Graph& graph_;
  const MemoryTrace trace_;
  const ir::Uses uses_;
};

}  // namespace

int drop_head_copies(ir::Graph& graph, PassContext& context) { return Dropper(graph).run(context); }

}  // namespace npugraph::passes
