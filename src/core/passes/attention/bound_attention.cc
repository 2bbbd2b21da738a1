// SPDX-License-Identifier: Apache-2.0
#include "passes/attention/bound_attention.h"

#include <algorithm>

#include "passes/attention/flash.h"
#include "passes/attention/key_mask.h"
#include "passes/memory_trace.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

// Bounds in the form of the arguments of npugraph.attention.
struct Bounds {
  std::optional<int64_t> before;
  std::optional<int64_t> after;
  bool at_end = false;
  std::optional<Expr> position;  // a number that has to be put into memory
};

bool is_false(const Attr& attr) {
  const auto flag = ops::as_constant(attr);
  return flag && !flag->as_bool();
}

class Bounder {
 public:
  Bounder(ir::Graph& graph, Replacements& replacements)
      : graph_(graph), replacements_(replacements), trace_(graph), uses_(ir::find_uses(graph)) {}

  bool bound(ir::NodeId id, bool flash) {
    const ir::Node node = graph_.node(id);
    const ir::ValueId mask = flash ? Flash::attn_mask(node) : own::attention::mask(node);
    const ir::TensorType* q = tensor(ops::as_value(arg::query(node)));
    const ir::TensorType* k = tensor(ops::as_value(arg::key(node)));
    if (mask == ir::kNone || q == nullptr || k == nullptr) return false;
    if (flash ? !is_false(Flash::is_causal.attr(node)) : has_bounds(node)) return false;
    if (q->sizes.size() != 4 || k->sizes.size() != 4 || q->dtype == DType::kF64) return false;
    const auto said = read_key_mask(graph_, mask, q->sizes[2], k->sizes[2]);
    if (!said || !stay_as_they_are(*said, id)) return false;
    const auto bounds = choose_bounds(*said, q->sizes[2], k->sizes[2]);
    if (!bounds || (said->rest != ir::kNone && !fits_scores(said->rest, *q, *k))) return false;
    if (!flash) {
      add_bounds(id, *said, *bounds);
      return true;
    }
    if (said->rest == ir::kNone && said->position == ir::kNone && !bounds->position && !bounds->at_end &&
        !bounds->before && bounds->after.value_or(0) == 0) {
      Flash::attn_mask.attr(graph_.node(id)) = None{};
      Flash::is_causal.attr(graph_.node(id)) = Expr::constant(Scalar::of_bool(bounds->after.has_value()));
      return true;
    }
    return replace(id, *said, *bounds);
  }

 private:
  static bool has_bounds(const ir::Node& node) {
    using own::attention;
    const auto is_given = [](const Attr& attr) { return !std::holds_alternative<None>(attr); };
    return is_given(attention::position.attr(node)) || is_given(attention::before.attr(node)) ||
           is_given(attention::after.attr(node));
  }

  void add_bounds(ir::NodeId id, const KeyMask& said, const Bounds& bounds) {
    const ir::ValueId position = bounds.position ? insert_number(id, *bounds.position) : said.position;
    const auto number = [](const std::optional<int64_t>& x) { return x ? Attr(Expr(*x)) : Attr(None{}); };
    const auto value = [](ir::ValueId x) { return x == ir::kNone ? Attr(None{}) : Attr(TensorRef{x}); };
    using own::attention;
    ir::Node& node = graph_.node(id);
    attention::mask.attr(node) = value(said.rest);
    attention::position.attr(node) = value(position);
    attention::before.attr(node) = number(bounds.before);
    attention::after.attr(node) = number(bounds.after);
    attention::at_end.attr(node) = Expr::constant(Scalar::of_bool(bounds.at_end));
  }

  const ir::TensorType* tensor(ir::ValueId id) const {
    return id == ir::kNone ? nullptr : std::get_if<ir::TensorType>(&graph_.value(id).type);
  }

  // Whether the position and the rest of the mask are unchanged until attention reads them.
  bool stay_as_they_are(const KeyMask& said, ir::NodeId attention) const {
    for (const ir::ValueId id : {said.position, said.rest}) {
      if (id == ir::kNone) continue;
      const ir::NodeId def = graph_.value(id).def;
      const int32_t since = def == ir::kNone ? MemoryTrace::kStart : trace_.position(def);
      if (trace_.is_accessed(id, since, trace_.position(attention), MemoryTrace::Kind::kWrite)) return false;
    }
    return true;
  }

  // Puts the number into memory, before `attention`.
  ir::ValueId insert_number(ir::NodeId attention, const Expr& number) {
    const Device device = tensor(ops::as_value(arg::query(graph_.node(attention))))->device;
    return insert_before(graph_, attention, aten::scalar_tensor::op(), {number, DType::kI64, None{}, device, None{}},
                         {.dtype = DType::kI64, .sizes = {}, .strides = {}, .device = device}, "position");
  }

  // Attention takes bounds that are known numbers. Tries them as they are; then, if no position is in memory, relative
  // to the last query at the last key, and relative to one of the bounds, which becomes the position.
  static std::optional<Bounds> choose_bounds(const KeyMask& said, const Expr& queries, const Expr& keys) {
    if (auto bounds = bounds_from(Expr(0), said)) return bounds;
    if (said.position != ir::kNone) return {};
    if (auto bounds = bounds_from(keys - queries, said)) {
      bounds->at_end = true;
      return bounds;
    }
    const Expr position = said.after ? *said.after : Expr(0) - *said.before;
    auto bounds = bounds_from(position, said);
    if (bounds) bounds->position = position;
    return bounds;
  }

  // The bounds relative to `position`: i + p is i + position + (p - position). nullopt if they are no known numbers.
  static std::optional<Bounds> bounds_from(const Expr& position, const KeyMask& said) {
    Bounds bounds;
    const auto put = [](const Expr& number, std::optional<int64_t>& to) {
      to = number.as_int();
      return to && *to > -kMost && *to < kMost;
    };
    if (said.after && !put(*said.after - position, bounds.after)) return {};
    if (said.before && !put(*said.before + position, bounds.before)) return {};
    return bounds;
  }

  bool fits_scores(ir::ValueId mask, const ir::TensorType& q, const ir::TensorType& k) const {
    const ir::TensorType* type = tensor(mask);
    if (type == nullptr || type->dtype != DType::kBool || (type->sizes.size() != 2 && type->sizes.size() != 4))
      return false;
    const std::vector<Expr> scores{q.sizes[0], q.sizes[1], q.sizes[2], k.sizes[2]};
    return broadcasts_to(type->sizes, scores);
  }

  bool replace(ir::NodeId id, const KeyMask& said, const Bounds& bounds) {
    const ir::Node node = graph_.node(id);
    const ir::ValueId result = node.results[0], logsumexp = node.results[1];
    if (result == ir::kNone) return false;
    if (logsumexp != ir::kNone && (!uses_.users[logsumexp].empty() || uses_.output_uses[logsumexp] > 0)) return false;
    const auto dropout = Flash::dropout_p.as_constant(node);
    if (!dropout || dropout->as_float() != 0) return false;
    const Expr no = Expr::constant(Scalar::of_bool(false));
    ir::Node attention{.op = &own::attention::op(), .section = node.section, .origin = node.origin};
    attention.args = {
        Flash::query.attr(node), Flash::key.attr(node), Flash::value.attr(node), None{}, None{}, None{}, None{}, no, no,
        Flash::scale.attr(node)};
    const ir::NodeId made =
        graph_.insert_before(id, std::move(attention), {graph_.value(result).type}, graph_.value(result).name);
    add_bounds(made, said, bounds);
    replacements_.replace(result, graph_.node(made).results[0]);
    return true;
  }

  static constexpr int64_t kMost = int64_t{1} << 40;
  ir::Graph& graph_;
  Replacements& replacements_;
  const MemoryTrace trace_;
  const ir::Uses uses_;
};

}  // namespace

int bound_attention(ir::Graph& graph, PassContext& context) {
  if (!context.fuses) return 0;
  Replacements replacements(graph);
  Bounder bounder(graph, replacements);
  return rewrite_each(graph, replacements, context, "knows from positions which keys a query sees", [&](ir::NodeId id) {
    const bool is_flash = Flash::is(graph.node(id)) && graph.node(id).results.size() == 2;
    return (is_flash || own::attention::is(graph.node(id))) && bounder.bound(id, is_flash);
  });
}

}  // namespace npugraph::passes
