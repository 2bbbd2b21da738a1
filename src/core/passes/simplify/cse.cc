// SPDX-License-Identifier: Apache-2.0
#include "passes/simplify/cse.h"

#include <algorithm>
#include <unordered_map>

#include "passes/epilogues.h"
#include "passes/memory_trace.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

void mix(size_t& seed, size_t value) { seed ^= value + 0x9e3779b97f4a7c15 + (seed << 6) + (seed >> 2); }

// Ignores the order of tensor arguments, so that exchanged operands get into one bucket. Arguments of other kinds,
// which rarely differ between two nodes of one operator, are left to the comparison.
size_t hash_of(const ir::Node& node) {
  size_t seed = std::hash<const void*>()(node.op);
  size_t tensors = 0;
  for (const Attr& arg : node.args) {
    mix(seed, arg.index());
    for_each_tensor(arg, [&](TensorRef ref) { tensors += std::hash<int32_t>()(ref.id) * 0x9e3779b1u; });
    for_each_expr(arg, [&](const Expr& expr) { mix(seed, expr.hash()); });
  }
  mix(seed, tensors);
  return seed;
}

class Numbering {
 public:
  Numbering(ir::Graph& graph, const PassContext& context)
      : graph_(graph),
        trace_(graph),
        epilogue_sources_(graph, trace_, context),
        replacements_(graph),
        last_write_(graph.num_values(), MemoryTrace::kStart) {
    for (const ir::Output& output : graph.outputs) {
      if (const auto* ref = std::get_if<TensorRef>(&output)) outputs_.push_back(ref->id);
    }
    std::sort(outputs_.begin(), outputs_.end());
  }

  int run() {
    int hits = 0;
    walk(graph_, replacements_, [&](ir::NodeId id) {
      if (is_candidate(graph_.node(id))) {
        hits += merge_or_keep(id);
      } else {
        note_writes(id);
      }
    });
    return hits;
  }

 private:
  bool is_candidate(const ir::Node& node) const {
    if (!is_pure(*node.op) || !node.defines.empty()) return false;
    return std::all_of(node.results.begin(), node.results.end(), [&](ir::ValueId result) {
      return result == ir::kNone ||
             (graph_.value(result).is_tensor() && (is_free_view(node) || !trace_.is_written(result)));
    });
  }

  bool merge_or_keep(ir::NodeId id) {
    auto& bucket = seen_[hash_of(graph_.node(id))];
    for (const ir::NodeId earlier : bucket) {
      if (!can_merge(earlier, id)) continue;
      replace_results(earlier, id);
      graph_.erase(id);
      return true;
    }
    bucket.push_back(id);
    return false;
  }

  bool can_merge(ir::NodeId earlier, ir::NodeId later) const {
    const ir::Node& a = graph_.node(earlier);
    const ir::Node& b = graph_.node(later);
    if (a.op != b.op || !have_equal_arguments(a, b) || a.results.size() != b.results.size()) return false;
    const bool is_view = is_free_view(b);
    if (!is_view && (a.section != b.section || is_any_operand_written_since(earlier, b))) return false;
    if (is_view && a.views != b.views) return false;
    for (size_t i = 0; i < a.results.size(); ++i) {
      if (!can_merge_results(a.results[i], b.results[i], is_view)) return false;
      if (!is_view && moves_write(b.results[i], earlier, later)) return false;
    }
    return true;
  }

  bool can_merge_results(ir::ValueId a, ir::ValueId b, bool is_view) const {
    if (a == ir::kNone || b == ir::kNone) return a == b;
    if (graph_.value(a).type != graph_.value(b).type) return false;
    if (is_view) return !std::binary_search(outputs_.begin(), outputs_.end(), b);
    return !(trace_.is_returned(a) && trace_.is_returned(b));
  }

  bool moves_write(ir::ValueId result, ir::NodeId earlier, ir::NodeId later) const {
    return result != ir::kNone &&
           epilogue_sources_.would_move(result, trace_.position(earlier), trace_.position(later));
  }

  bool have_equal_arguments(const ir::Node& a, const ir::Node& b) const {
    if (a.args == b.args) return true;
    const auto operands = exchangeable_operands(a);
    if (!operands || graph_.value(operands->first).type != graph_.value(operands->second).type) return false;
    std::vector<Attr> exchanged = a.args;
    exchange_operands(exchanged);
    return exchanged == b.args;
  }

  bool is_any_operand_written_since(ir::NodeId earlier, const ir::Node& node) const {
    const auto operands = ir::operands(node);
    return std::any_of(operands.begin(), operands.end(), [&](ir::ValueId operand) {
      return last_write_[trace_.root(operand)] > trace_.position(earlier);
    });
  }

  void replace_results(ir::NodeId earlier, ir::NodeId later) {
    const auto& kept = graph_.node(earlier).results;
    const auto& gone = graph_.node(later).results;
    for (size_t i = 0; i < gone.size(); ++i) {
      if (gone[i] == ir::kNone) continue;
      trace_.unite(kept[i], gone[i]);
      replacements_.replace(gone[i], kept[i]);
    }
  }

  void note_writes(ir::NodeId id) {
    for (const ir::ValueId written : ir::written_operands(graph_.node(id))) {
      last_write_[trace_.root(written)] = trace_.position(id);
    }
  }

  ir::Graph& graph_;
  MemoryTrace trace_;
  const EpilogueSources epilogue_sources_;
  Replacements replacements_;
  std::vector<int32_t> last_write_;   // per root: position of the last write so far
  std::vector<ir::ValueId> outputs_;  // sorted
  std::unordered_map<size_t, std::vector<ir::NodeId>> seen_;
};

}  // namespace

int cse(ir::Graph& graph, PassContext& context) { return Numbering(graph, context).run(); }

}  // namespace npugraph::passes
