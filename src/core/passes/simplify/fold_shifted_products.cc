// SPDX-License-Identifier: Apache-2.0
#include "passes/simplify/fold_shifted_products.h"

#include <utility>
#include <vector>

#include "ops/operators.h"
#include "ops/table.h"
#include "passes/memory_trace.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

constexpr int64_t kShift = 128;

class ShiftFolder {
 public:
  explicit ShiftFolder(ir::Graph& graph) : graph_(graph), trace_(graph), uses_(ir::find_uses(graph)) {}

  bool fold(ir::NodeId id) {
    ir::Node& node = graph_.node(id);
    if (!aten::sub_Tensor::is(node) || !has_unit_alpha(node)) return false;
    const ir::ValueId product = aten::sub_Tensor::self(node);
    const ir::Node* multiply = producer(product);
    if (multiply == nullptr || !aten::_int_mm::is(*multiply) || !has_one_reader(product)) return false;
    const ir::ValueId x = signed_of(aten::_int_mm::self(*multiply), id), w = aten::_int_mm::mat2(*multiply);
    if (x == ir::kNone || !is_shifted_sum(aten::sub_Tensor::other(node), w, id)) return false;
    if (graph_.value(node.results[0]).type != graph_.value(product).type) return false;
    node.op = &aten::_int_mm::op();
    node.args = {TensorRef{x}, TensorRef{w}};
    return true;
  }

 private:
  const ir::Node* producer(ir::ValueId id) const {
    return id == ir::kNone || graph_.value(id).def == ir::kNone ? nullptr : &graph_.node(graph_.value(id).def);
  }
  template <typename Operator>
  const ir::Node* made_by(ir::ValueId id) const {
    const ir::Node* node = producer(id);
    return node != nullptr && Operator::is(*node) ? node : nullptr;
  }
  bool has_type(ir::ValueId id, DType dtype) const {
    return id != ir::kNone && graph_.value(id).is_tensor() && graph_.value(id).tensor().dtype == dtype;
  }
  bool has_one_reader(ir::ValueId id) const { return uses_.users[id].size() == 1 && uses_.output_uses[id] == 0; }
  bool keeps_elements(ir::ValueId id, ir::NodeId first, ir::NodeId last) const {
    return !trace_.is_accessed(id, trace_.position(first), trace_.position(last), MemoryTrace::Kind::kWrite);
  }

  // The i8 matrix x of `shifted`, which is x + 128 as u8; kNone for other values. `reader` is to read x.
  ir::ValueId signed_of(ir::ValueId shifted, ir::NodeId reader) const {
    using aten::_to_copy, aten::add_Tensor;
    const ir::Node* narrow = has_type(shifted, DType::kU8) ? made_by<_to_copy>(shifted) : nullptr;
    if (narrow == nullptr) return ir::kNone;
    const ir::ValueId sum = _to_copy::self(*narrow);
    const ir::Node* add = has_type(sum, DType::kI32) ? made_by<add_Tensor>(sum) : nullptr;
    if (add == nullptr || !has_unit_alpha(*add) || ops::as_int(add_Tensor::other.attr(*add)) != kShift)
      return ir::kNone;
    const ir::ValueId widened = add_Tensor::self(*add);
    const ir::Node* widen = has_type(widened, DType::kI32) ? made_by<_to_copy>(widened) : nullptr;
    const ir::ValueId x = widen == nullptr ? ir::kNone : _to_copy::self(*widen);
    const bool fits = has_type(x, DType::kI8) && keeps_elements(x, graph_.value(widened).def, reader);
    return fits ? x : ir::kNone;
  }

  // Whether `value` is 128 times the sums of the columns of w [k, n].
  bool is_shifted_sum(ir::ValueId value, ir::ValueId w, ir::NodeId reader) const {
    using aten::mul_Tensor, aten::sum_dim_IntList;
    const ir::Node* multiply = has_type(value, DType::kI32) ? made_by<mul_Tensor>(value) : nullptr;
    if (multiply == nullptr || ops::as_int(mul_Tensor::other.attr(*multiply)) != kShift) return false;
    const ir::ValueId sums = mul_Tensor::self(*multiply);
    const ir::Node* sum = has_type(sums, DType::kI32) ? made_by<sum_dim_IntList>(sums) : nullptr;
    if (sum == nullptr || sum_dim_IntList::self(*sum) != w || !has_type(w, DType::kI8)) return false;
    const std::vector<Expr>* dims = sum_dim_IntList::dim(*sum);
    const bool by_columns =
        dims != nullptr && dims->size() == 1 && (dims->front().is_int(0) || dims->front().is_int(-2));
    return by_columns && keeps_elements(w, graph_.value(sums).def, reader);
  }

  ir::Graph& graph_;
  const MemoryTrace trace_;
  const ir::Uses uses_;
};

}  // namespace

int fold_shifted_products(ir::Graph& graph, PassContext& context) {
  if (!context.fuses) return 0;
  ShiftFolder folder(graph);
  int hits = 0;
  for (const ir::NodeId id : graph.order()) {
    if (graph.node(id).dead || !folder.fold(id)) continue;
    context.remark(graph.node(id), "multiplies signed integers");
    ++hits;
  }
  return hits;
}

}  // namespace npugraph::passes
