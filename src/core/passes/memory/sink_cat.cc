// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/sink_cat.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "ops/node_facts.h"
#include "ops/operators.h"
#include "passes/memory_trace.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

// A concatenation with one reader.
struct Match {
  ir::NodeId cat = ir::kNone;
  size_t argument = 0;  // index of the reader's argument
  int64_t dim = 0;      // counted from the front
  std::vector<TensorRef> parts;
};

class Sinker {
 public:
  explicit Sinker(ir::Graph& graph) : graph_(graph), trace_(graph), uses_(ir::find_uses(graph)), replacements_(graph) {}

  int run(PassContext& context) {
    int hits = 0;
    walk(graph_, replacements_, [&](ir::NodeId id) {
      const auto match = find_match(id);
      if (!match || !rewrite(id, *match)) return;
      context.remark(graph_.node(id), "computed in the parts of a concatenation");
      graph_.erase(id);
      graph_.erase(match->cat);
      ++hits;
    });
    return hits;
  }

 private:
  const ir::TensorType* tensor(ir::ValueId id) const { return std::get_if<ir::TensorType>(&graph_.value(id).type); }
  bool is_known(ir::ValueId id) const { return static_cast<size_t>(id) < uses_.users.size(); }

  std::optional<Match> find_match(ir::NodeId id) const {
    const ir::Node& node = graph_.node(id);
    if (!is_pure(*node.op) || !ops::is_exact(graph_, node) || node.results.size() != 1) return std::nullopt;
    for (size_t i = 0; i < node.args.size(); ++i) {
      const ir::ValueId operand = ops::as_value(node.args[i]);
      if (operand == ir::kNone || !is_known(operand)) continue;
      auto match = find_parts(operand);
      if (!match || !is_only_reader(node, operand) || !others_fit(node, i, *match) || !saves_copies(id, *match))
        continue;
      match->argument = i;
      return match;
    }
    return std::nullopt;
  }

  std::optional<Match> find_parts(ir::ValueId value) const {
    const ir::NodeId def = graph_.value(value).def;
    if (def == ir::kNone || !aten::cat::is(graph_.node(def))) return std::nullopt;
    const auto* parts = aten::cat::tensors(graph_.node(def));
    const auto dim = aten::cat::dim.as_int(graph_.node(def));
    const ir::TensorType* type = tensor(value);
    if (parts == nullptr || !dim || type == nullptr) return std::nullopt;
    const auto rank = static_cast<int64_t>(type->sizes.size());
    const bool plain = std::all_of(parts->begin(), parts->end(), [&](TensorRef part) {
      return tensor(part.id) != nullptr && tensor(part.id)->dtype == type->dtype &&
             static_cast<int64_t>(tensor(part.id)->sizes.size()) == rank;
    });
    if (!plain) return std::nullopt;
    return Match{.cat = def, .dim = *dim < 0 ? *dim + rank : *dim, .parts = *parts};
  }

  bool is_only_reader(const ir::Node& node, ir::ValueId value) const {
    const auto operands = ir::operands(node);
    return uses_.users[value].size() == 1 && uses_.output_uses[value] == 0 &&
           std::count(operands.begin(), operands.end(), value) == 1 &&
           tensor(value)->sizes == tensor(node.results[0])->sizes;
  }

  // The dimension of `operand`, which broadcasts to the concatenation, for dimension `dim` of that; negative: none.
  static int64_t dim_of(const ir::TensorType& operand, const ir::TensorType& whole, int64_t dim) {
    return dim - static_cast<int64_t>(whole.sizes.size()) + static_cast<int64_t>(operand.sizes.size());
  }
  static bool is_divided(const ir::TensorType& operand, const ir::TensorType& whole, int64_t dim) {
    const int64_t at = dim_of(operand, whole, dim);
    return at >= 0 && !operand.sizes[at].is_int(1);
  }

  bool others_fit(const ir::Node& node, size_t argument, const Match& match) const {
    const ir::TensorType& whole = *tensor(ops::as_value(node.args[argument]));
    for (size_t i = 0; i < node.args.size(); ++i) {
      const ir::ValueId other = ops::as_value(node.args[i]);
      if (i == argument || other == ir::kNone) continue;
      const ir::TensorType* type = tensor(other);
      if (type == nullptr) return false;
      if (is_divided(*type, whole, match.dim) &&
          type->sizes[dim_of(*type, whole, match.dim)] != whole.sizes[match.dim]) {
        return false;
      }
    }
    return true;
  }

  // Whether a node computes the part for this concatenation alone.
  bool is_computed(ir::ValueId part) const {
    const ir::ValueId root = trace_.root(part);
    return trace_.is_fresh(part) && trace_.is_whole(part) && trace_.accesses(part).size() == 1 &&
           ops::is_exact(graph_, graph_.node(graph_.value(root).def));
  }

  // Whether there are no more parts than saved copies and the reader together. The parts are then read later than
  // before, so they must not be written in between.
  bool saves_copies(ir::NodeId reader, const Match& match) const {
    size_t copies = 0;
    for (const TensorRef part : match.parts) {
      if (!is_known(part.id)) return false;
      copies += !is_computed(part.id);
      if (trace_.is_accessed(part.id, trace_.position(match.cat), trace_.position(reader), MemoryTrace::Kind::kWrite)) {
        return false;
      }
    }
    return copies > 0 && match.parts.size() <= copies + 1;
  }

  // Adds `reader` for elements [begin, end) along the dimension. kNone if its type cannot be inferred.
  ir::ValueId add_part(ir::NodeId reader, const Match& match, ir::ValueId part, const Expr& begin, const Expr& end) {
    const ir::TensorType whole = *tensor(ops::as_value(graph_.node(reader).args[match.argument]));
    std::vector<Attr> args = graph_.node(reader).args;
    for (size_t i = 0; i < args.size(); ++i) {
      const ir::ValueId other = ops::as_value(args[i]);
      if (i == match.argument || other == ir::kNone || !is_divided(*tensor(other), whole, match.dim)) continue;
      const Expr dim = dim_of(*tensor(other), whole, match.dim);
      const std::string name = graph_.value(other).name + ".part";
      const ir::ValueId slice =
          insert_before(graph_, reader, aten::slice_Tensor::op(), {TensorRef{other}, dim, begin, end, Expr(1)}, name);
      if (slice == ir::kNone || tensor(slice)->sizes[*dim.as_int()] != end - begin) return ir::kNone;
      args[i] = TensorRef{slice};
    }
    args[match.argument] = TensorRef{part};
    return insert_before(graph_, reader, *graph_.node(reader).op, std::move(args), graph_.value(part).name + ".part");
  }

  // False if types of parts cannot be inferred, or the whole would have another type. Added nodes are then unused.
  bool rewrite(ir::NodeId reader, const Match& match) {
    std::vector<TensorRef> parts;
    Expr begin = 0;
    for (const TensorRef part : match.parts) {
      const Expr end = begin + tensor(part.id)->sizes[match.dim];
      const ir::ValueId computed = add_part(reader, match, part.id, begin, end);
      if (computed == ir::kNone) return false;
      parts.push_back({computed});
      begin = end;
    }
    const ir::ValueId result = graph_.node(reader).results[0];
    const ir::ValueId whole =
        insert_before(graph_, reader, aten::cat::op(), {parts, Expr(match.dim)}, graph_.value(result).name + ".whole");
    if (whole == ir::kNone || graph_.value(whole).type != graph_.value(result).type) return false;
    replacements_.replace(result, whole);
    return true;
  }

  ir::Graph& graph_;
  MemoryTrace trace_;
  ir::Uses uses_;
  Replacements replacements_;
};

}  // namespace

int sink_cat(ir::Graph& graph, PassContext& context) { return Sinker(graph).run(context); }

}  // namespace npugraph::passes
