// SPDX-License-Identifier: Apache-2.0
#include "passes/simplify/fold_conversions.h"

#include <utility>

#include "ops/operators.h"
#include "ops/table.h"
#include "passes/memory_trace.h"
#include "passes/rewrite.h"
#include "tensor/shape.h"

namespace npugraph::passes {
namespace {

constexpr int64_t kMostElements = 4096;

// Whether the node computes in the common type of its operands, which is also the type of its result.
bool is_arithmetic(const ir::Node& node) { return ops::is_any<aten::mul_Tensor, aten::div_Tensor>(node); }

class ConversionFolder {
 public:
  explicit ConversionFolder(ir::Graph& graph) : graph_(graph), trace_(graph), uses_(ir::find_uses(graph)) {}

  bool fold(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    // If both operands are one conversion, replacing both would change the type of the result, and replacing one would
    // leave the other without a definition.
    if (!is_arithmetic(node) || ops::as_value(arg::self(node)) == ops::as_value(arg::other(node))) return false;
    for (size_t i = 0; i < node.args.size(); ++i) {
      const ir::ValueId source = find_source(ops::as_value(node.args[i]), id);
      if (source == ir::kNone) continue;
      std::vector<Attr> args = node.args;
      args[i] = TensorRef{source};
      const auto types = ops::infer_types(graph_, *node.op, args);
      if (!types || types->front() != graph_.value(node.results[0]).type) continue;
      graph_.erase(graph_.value(ops::as_value(node.args[i])).def);
      graph_.node(id).args = std::move(args);
      return true;
    }
    return false;
  }

 private:
  // The source of the conversion that makes `value`, if it converts to the type in which `reader` computes and has no
  // other reader; else kNone.
  ir::ValueId find_source(ir::ValueId value, ir::NodeId reader) const {
    if (value == ir::kNone || graph_.value(value).def == ir::kNone) return ir::kNone;
    const ir::Node& node = graph_.node(graph_.value(value).def);
    if (!aten::_to_copy::is(node) || uses_.users[value].size() != 1 || uses_.output_uses[value] != 0) return ir::kNone;
    const ir::ValueId source = aten::_to_copy::self(node);
    if (source == ir::kNone) return ir::kNone;  // a number
    const auto* from = std::get_if<ir::TensorType>(&graph_.value(source).type);
    const auto* to = std::get_if<ir::TensorType>(&graph_.value(value).type);
    if (from == nullptr || to == nullptr || from->device != to->device || from->dtype == to->dtype) return ir::kNone;
    // Kernels of narrower types read scalars with more precision than the type has.
    if (to->dtype != DType::kF32 && to->dtype != DType::kF64) return ir::kNone;
    if (to->dtype != graph_.value(graph_.node(reader).results[0]).tensor().dtype) return ir::kNone;
    const auto elements = numel(from->sizes).as_int();
    if (!elements || *elements > kMostElements) return ir::kNone;
    const int32_t converted = trace_.position(graph_.value(value).def);
    const bool written = trace_.is_accessed(source, converted, trace_.position(reader), MemoryTrace::Kind::kWrite);
    return written ? ir::kNone : source;
  }

  ir::Graph& graph_;
  const MemoryTrace trace_;
  const ir::Uses uses_;
};

}  // namespace

int fold_conversions(ir::Graph& graph, PassContext&) {
  ConversionFolder folder(graph);
  int hits = 0;
  for (const ir::NodeId id : graph.order()) {
    if (!graph.node(id).dead && folder.fold(id)) ++hits;
  }
  return hits;
}

}  // namespace npugraph::passes
