// SPDX-License-Identifier: Apache-2.0
#include "passes/simplify/dce.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "ir/alias.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

// Liveness, found from the last node to the first. A value is needed if a live node names it; a memory is observed if a
// live later node, or the caller, reads it.
class Sweep {
 public:
  explicit Sweep(ir::Graph& graph)
      : graph_(graph), aliases_(graph), is_needed_(graph.num_values(), false), is_observed_(graph.num_values(), false) {
    for (const ir::Input& input : graph.inputs) {
      if (input.value != ir::kNone) is_observed_[input.value] = true;
    }
    for (const ir::Constant& constant : graph.constants) is_observed_[constant.value] = true;
    for (const ir::Output& output : graph.outputs) {
      if (const auto* ref = std::get_if<TensorRef>(&output)) observe(ref->id);
      if (const auto* expr = std::get_if<Expr>(&output)) need_symbols(*expr);
    }
    for (const ir::NodeId id : graph.order()) {
      has_definitions_ = has_definitions_ || (!graph.node(id).dead && !graph.node(id).defines.empty());
    }
  }

  int run() {
    int hits = 0;
    for (auto id = graph_.order().rbegin(); id != graph_.order().rend(); ++id) {
      const ir::Node& node = graph_.node(*id);
      if (node.dead) continue;
      if (is_live(node)) {
        mark(node);
      } else {
        graph_.erase(*id);
        ++hits;
      }
    }
    return hits + drop_constants();
  }

 private:
  bool is_live(const ir::Node& node) const {
    const ir::Op& op = *node.op;
    if (op.is(ir::Trait::kRandom) || op.is(ir::Trait::kSideEffect) || op.is(ir::Trait::kOpaque)) return true;
    const auto is_needed = [&](ir::ValueId id) { return id != ir::kNone && is_needed_[id]; };
    if (std::any_of(node.results.begin(), node.results.end(), is_needed)) return true;
    const auto is_used = [&](const ir::SymbolDef& definition) { return symbols_.contains(definition.symbol); };
    if (std::any_of(node.defines.begin(), node.defines.end(), is_used)) return true;
    const auto written = ir::written_operands(node);
    return std::any_of(written.begin(), written.end(), [&](ir::ValueId id) { return is_observed_[aliases_.root(id)]; });
  }

  void mark(const ir::Node& node) {
    const bool reads = !is_free_view(node);
    for (const ir::ValueId operand : ir::operands(node)) {
      is_needed_[operand] = true;
      if (reads) is_observed_[aliases_.root(operand)] = true;
    }
    if (!has_definitions_) return;
    for (const Attr& arg : node.args) for_each_expr(arg, [this](const Expr& expr) { need_symbols(expr); });
    for (const ir::View& view : node.views) need_symbols(view.offset);
    for (const ir::ValueId result : node.results) {
      if (result != ir::kNone) need_symbols_of(result);
    }
  }

  void observe(ir::ValueId id) {
    is_needed_[id] = true;
    is_observed_[aliases_.root(id)] = true;
  }

  void need_symbols_of(ir::ValueId id) {
    if (!graph_.value(id).is_tensor()) return;
    const ir::TensorType& type = graph_.value(id).tensor();
    for (const Expr& size : type.sizes) need_symbols(size);
    for (const Expr& stride : type.strides) need_symbols(stride);
  }

  void need_symbols(const Expr& expr) {
    if (expr.is_constant()) return;
    std::vector<std::string> names;
    collect_symbols(expr, names);
    symbols_.insert(names.begin(), names.end());
  }

  int drop_constants() {
    return static_cast<int>(
        std::erase_if(graph_.constants, [this](const ir::Constant& constant) { return !is_needed_[constant.value]; }));
  }

  ir::Graph& graph_;
  ir::AliasInfo aliases_;
  std::vector<bool> is_needed_;    // per value
  std::vector<bool> is_observed_;  // per root
  std::unordered_set<std::string> symbols_;
  bool has_definitions_ = false;
};

}  // namespace

int dce(ir::Graph& graph, PassContext&) { return Sweep(graph).run(); }

}  // namespace npugraph::passes
