// SPDX-License-Identifier: Apache-2.0
#include "passes/simplify/fold_constants.h"

#include <algorithm>

#include "passes/epilogues.h"
#include "passes/memory_trace.h"
#include "passes/rewrite.h"
#include "tensor/shape.h"

namespace npugraph::passes {
namespace {

bool has_known_scalars(const ir::Node& node) {
  bool known = true;
  for (const Attr& arg : node.args) for_each_expr(arg, [&](const Expr& expr) { known = known && expr.is_constant(); });
  return known;
}

// Bytes that a tensor spans, if its sizes and strides are known.
std::optional<int64_t> known_bytes(const ir::Type& type) {
  const auto* tensor = std::get_if<ir::TensorType>(&type);
  if (tensor == nullptr) return std::nullopt;
  const auto elements = extent(tensor->sizes, tensor->strides).as_int();
  if (!elements) return std::nullopt;
  return *elements * size_of(tensor->dtype);
}

class ConstantFolder {
 public:
  ConstantFolder(ir::Graph& graph, PassContext& context)
      : graph_(graph),
        context_(context),
        trace_(graph),
        epilogue_sources_(graph, trace_, context),
        replacements_(graph),
        is_constant_(graph.num_values(), false) {
    for (const ir::Constant& constant : graph.constants) {
      is_constant_[constant.value] = graph.value(constant.value).is_tensor() && is_folding_ground(constant.value);
    }
  }

  int run() {
    walk(graph_, replacements_, [&](ir::NodeId id) {
      if (can_fold(graph_.node(id))) fold(id);
    });
    return hits_;
  }

 private:
  // Whether nodes of this graph only read the memory of `id`, none of them is opaque, and the graph does not return it.
  bool is_folding_ground(ir::ValueId id) const {
    const auto accesses = trace_.accesses(id);
    return std::none_of(accesses.begin(), accesses.end(), [&](const MemoryTrace::Access& access) {
      return access.write || access.position == MemoryTrace::kEnd ||
             graph_.node(access.node).op->is(ir::Trait::kOpaque);
    });
  }

  bool is_constant_or_view_of_one(ir::ValueId id) const {
    if (is_constant_[id]) return true;
    const ir::NodeId def = graph_.value(id).def;
    if (def == ir::kNone || !is_free_view(graph_.node(def))) return false;
    const auto bases = ir::operands(graph_.node(def));
    return bases.size() == 1 && has_known_scalars(graph_.node(def)) && is_constant_or_view_of_one(bases.front());
  }

  bool can_fold(const ir::Node& node) const {
    if (!is_pure(*node.op) || node.op->is(ir::Trait::kView) || !node.defines.empty()) return false;
    if (node.op->is(ir::Trait::kUninitialised) || !has_known_scalars(node)) return false;
    const auto operands = ir::operands(node);
    if (operands.empty() && !node.op->is(ir::Trait::kCreation)) return false;
    return std::all_of(operands.begin(), operands.end(),
                       [&](ir::ValueId id) { return is_constant_or_view_of_one(id); }) &&
           std::all_of(node.results.begin(), node.results.end(), [&](ir::ValueId id) { return can_be_constant(id); });
  }

  bool can_be_constant(ir::ValueId id) const {
    if (id == ir::kNone || !is_folding_ground(id)) return false;
    const int32_t position = trace_.position(graph_.value(id).def);
    if (epilogue_sources_.would_move(id, MemoryTrace::kStart, position)) return false;
    const auto bytes = known_bytes(graph_.value(id).type);
    return bytes && *bytes <= kMaxFoldedBytes;
  }

  // Turns the results of a node whose operands are constants, or views of constants, into constants.
  bool fold(ir::NodeId id) {
    replacements_.rewrite_operands(graph_.node(id));
    for (const ir::ValueId operand : ir::operands(graph_.node(id))) {
      const ir::ValueId now = replacements_.resolve(operand);  // folded already if it occurs twice
      if (!is_constant_[now] && !fold(graph_.value(now).def)) return false;
    }
    replacements_.rewrite_operands(graph_.node(id));
    const auto data = context_.evaluate(graph_, id);
    const std::vector<ir::ValueId> results = graph_.node(id).results;
    if (data.size() != results.size()) return false;
    for (size_t i = 0; i < results.size(); ++i) add_constant(results[i], data[i]);
    graph_.erase(id);
    ++hits_;
    return true;
  }

  void add_constant(ir::ValueId result, std::shared_ptr<const ir::ConstantData> data) {
    const ir::ValueId constant = graph_.add_value(graph_.value(result).type, graph_.value(result).name);
    graph_.constants.push_back({constant, std::move(data), true});
    is_constant_.resize(graph_.num_values(), false);
    is_constant_[constant] = true;
    replacements_.replace(result, constant);
  }

  ir::Graph& graph_;
  PassContext& context_;
  MemoryTrace trace_;
  const EpilogueSources epilogue_sources_;
  Replacements replacements_;
  std::vector<bool> is_constant_;  // per value: a constant that may be read at compile time
  int hits_ = 0;
};

}  // namespace

int fold_constants(ir::Graph& graph, PassContext& context) {
  if (!context.evaluate) return 0;
  return ConstantFolder(graph, context).run();
}

}  // namespace npugraph::passes
