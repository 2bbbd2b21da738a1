// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/straighten.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "ops/operators.h"
#include "passes/rewrite.h"
#include "tensor/shape.h"

namespace npugraph::passes {
namespace {

// Connected elementwise nodes, whose layout follows that of their operands.
struct Chain {
  std::vector<ir::NodeId> nodes;  // in program order
  int transposed = 0;             // transposed operands from outside of the chain
  int readers = 0;                // normalisations and copies that prefer row-major order
};

class Straightener {
 public:
  explicit Straightener(ir::Graph& graph)
      : graph_(graph), uses_(ir::find_uses(graph)), in_chain_(graph.num_nodes(), false), parent_(graph.num_nodes()) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  int run(PassContext& context) {
    find_members();
    int hits = 0;
    for (const auto& [root, chain] : find_chains()) {
      if (chain.readers == 0 || chain.transposed > chain.readers) continue;
      context.remark(graph_.node(chain.nodes.front()), "rows in order for those that read them");
      rewrite(chain);
      ++hits;
    }
    return hits;
  }

 private:
  const ir::TensorType* tensor(ir::ValueId id) const { return std::get_if<ir::TensorType>(&graph_.value(id).type); }
  bool is_in_order(ir::ValueId id) const { return is_contiguous(tensor(id)->sizes, tensor(id)->strides); }
  // False for copies that this pass added.
  bool is_member(ir::NodeId id) const {
    return id != ir::kNone && static_cast<size_t>(id) < in_chain_.size() && in_chain_[id];
  }

  // Whether the node is a copy that keeps the layout of its source, such as a dropout without effect leaves.
  static bool is_plain_clone(const ir::Node& node) {
    if (!aten::clone::is(node)) return false;
    const auto* format = aten::clone::memory_format(node);
    return format == nullptr || *format == MemoryFormat::kPreserve;
  }
  // Whether the node makes one fresh tensor, element by element.
  bool is_elementwise(const ir::Node& node) const {
    const bool computes = node.op->is(ir::Trait::kElementwise) && !node.op->is(ir::Trait::kCopyLike);
    return is_pure(*node.op) && (computes || is_plain_clone(node)) && node.views.empty() && node.results.size() == 1 &&
           tensor(node.results[0]) != nullptr;
  }
  // Whether the node gives the same result for any strides of `value`, and prefers row-major order.
  bool wants_rows(const ir::Node& node, ir::ValueId value) const {
    using aten::native_layer_norm;
    if (native_layer_norm::is(node)) return native_layer_norm::input(node) == value;
    return makes_contiguous(node) && aten::clone::self(node) == value;
  }
  bool allows(ir::NodeId user, ir::ValueId value) const {
    const ir::Node& node = graph_.node(user);
    if (wants_rows(node, value)) return true;
    return is_elementwise(node) && (is_in_order(node.results[0]) || in_chain_[user]);
  }

  void find_members() {
    const auto& order = graph_.order();
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      const ir::Node& node = graph_.node(*id);
      if (node.dead || !is_elementwise(node)) continue;
      const ir::ValueId result = node.results[0];
      const auto& users = uses_.users[result];
      in_chain_[*id] = !is_in_order(result) && uses_.output_uses[result] == 0 && !users.empty() &&
                       std::all_of(users.begin(), users.end(), [&](ir::NodeId user) { return allows(user, result); });
    }
  }

  ir::NodeId root(ir::NodeId id) const {
    while (parent_[id] != id) id = parent_[id];
    return id;
  }

  std::map<ir::NodeId, Chain> find_chains() {
    for (const ir::NodeId id : graph_.order()) {
      if (graph_.node(id).dead || !in_chain_[id]) continue;
      for (const ir::ValueId operand : ir::operands(graph_.node(id))) {
        const ir::NodeId def = graph_.value(operand).def;
        if (is_member(def)) parent_[root(id)] = root(def);
      }
    }
    std::map<ir::NodeId, Chain> chains;
    for (const ir::NodeId id : graph_.order()) {
      if (!graph_.node(id).dead && in_chain_[id]) add(id, chains[root(id)]);
    }
    return chains;
  }

  void add(ir::NodeId id, Chain& chain) const {
    const ir::Node& node = graph_.node(id);
    chain.nodes.push_back(id);
    for (const ir::NodeId user : uses_.users[node.results[0]])
      chain.readers += wants_rows(graph_.node(user), node.results[0]);
    for (const Attr& arg : node.args) chain.transposed += is_transposed(ops::as_value(arg));
  }

  bool is_transposed(ir::ValueId operand) const {
    return operand != ir::kNone && tensor(operand) != nullptr && !is_member(graph_.value(operand).def) &&
           !is_in_order(operand);
  }

  // Adds a copy for each use. Only cse can tell whether a write between two uses forbids sharing one.
  void rewrite(const Chain& chain) {
    for (const ir::NodeId id : chain.nodes) {
      for (size_t i = 0; i < graph_.node(id).args.size(); ++i) {
        const ir::ValueId operand = ops::as_value(graph_.node(id).args[i]);
        if (!is_transposed(operand)) continue;
        const ir::ValueId copy = insert_copy(id, operand);
        graph_.node(id).args[i] = TensorRef{copy};
      }
      auto& type = std::get<ir::TensorType>(graph_.value(graph_.node(id).results[0]).type);
      type.strides = contiguous_strides(type.sizes);
    }
  }

  ir::ValueId insert_copy(ir::NodeId before, ir::ValueId operand) {
    ir::TensorType type = *tensor(operand);
    type.strides = contiguous_strides(type.sizes);
    return insert_before(graph_, before, aten::clone::op(), {TensorRef{operand}, MemoryFormat::kContiguous}, type,
                         graph_.value(operand).name + ".rows");
  }

  ir::Graph& graph_;
  ir::Uses uses_;
  std::vector<bool> in_chain_;      // by node
  std::vector<ir::NodeId> parent_;  // by node, of a union-find
};

}  // namespace

int straighten(ir::Graph& graph, PassContext& context) { return Straightener(graph).run(context); }

}  // namespace npugraph::passes
