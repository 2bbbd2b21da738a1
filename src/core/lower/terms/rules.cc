// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "ir/alias.h"
#include "ir/bounds.h"
#include "loop/text.h"
#include "lower/terms/rule.h"
#include "lower/terms/writer.h"
#include "ops/scalar.h"
#include "ops/table.h"

namespace npugraph::lower {

using loop::Builder;
using loop::Op;
using loop::Value;

namespace {

// Whether loops can read all numbers among the arguments: constants, symbols, and integers made of symbols.
bool has_readable_numbers(const ir::Node& node) {
  const auto is_readable = [](const Attr& attr) {
    const auto* e = std::get_if<Expr>(&attr);
    if (e == nullptr || e->is_constant() || e->op() == ExprOp::kSymbol) return true;
    return e->kind() == ScalarKind::kInt && loop::is_index(*e);
  };
  return std::all_of(node.args.begin(), node.args.end(), is_readable);
}
Value value_of_number(Builder& b, const Expr& e) { return e.op() == ExprOp::kSymbol ? b.read(e) : b.index(e); }
// Whether the operator's choice between 0.0 and -0.0 depends, in torch, on where an element lies.
bool chooses_zeros(const ir::Op& op) {
  return ops::is_any<aten::fmax, aten::fmin, aten::clamp_Tensor, aten::clamp_min_Tensor, aten::clamp_max_Tensor>(op);
}
// Whether each operand certainly has the size 1 or that of `space` in each dimension. A guard of the front end that
// makes unequal expressions equal may also make the size of an operand 1, unless it is at least 2.
bool fits_broadcast(const ir::Graph& graph, const ir::Node& node, const ir::TensorType& space) {
  return std::ranges::all_of(ir::operands(node), [&](ir::ValueId operand) {
    const auto* type = tensor_type(graph, operand);
    if (type == nullptr || type->sizes.size() > space.sizes.size()) return false;
    const size_t missing = space.sizes.size() - type->sizes.size();
    for (size_t d = 0; d < type->sizes.size(); ++d) {
      const Expr& size = type->sizes[d];
      const bool fits =
          size.is_int(1) || size == space.sizes[missing + d] || ir::is_nonnegative(size - 2, graph.symbols);
      if (!fits) return false;
    }
    return true;
  });
}
bool fits_any_scalar(const ir::Graph& graph, const ir::Node& node) {
  return has_readable_numbers(node) && ops::has_scalar_meaning(graph, node);
}
// Formulas that fail do so in the loop itself, where other nodes may have stored results already.
bool fits_scalar(const ir::Graph& graph, const ir::Node& node) {
  return !chooses_zeros(*node.op) && !node.op->is(ir::Trait::kMayThrow) && fits_any_scalar(graph, node);
}
bool fits_result(const ir::Graph& graph, const ir::Node& node) {
  const auto* result = node.results[0] == ir::kNone ? nullptr : tensor_type(graph, node.results[0]);
  return result != nullptr && fits_broadcast(graph, node, *result);
}
bool fits_any_elementwise(const ir::Graph& graph, const ir::Node& node) {
  return fits_any_scalar(graph, node) && fits_result(graph, node);
}
bool fits_elementwise(const ir::Graph& graph, const ir::Node& node) {
  return fits_scalar(graph, node) && fits_result(graph, node);
}
// `load` gives the term of an operand.
template <typename Load>
int scalar_term(TermWriter& w, const ir::Graph& graph, const ir::Node& node, Load load) {
  std::vector<int> args;
  std::unordered_map<ir::ValueId, size_t> index;
  for (const ir::ValueId operand : ir::operands(node)) {
    if (index.emplace(operand, args.size()).second) args.push_back(load(operand));
  }
  for (const Attr& attr : node.args) for_each_expr(attr, [&](const Expr& e) { w.reads(e); });
  // Captures a copy of the node: terms may outlive it.
  return w.map(std::move(args), 4, [&graph, node, index](Builder& b, Values v) {
    return ops::emit_scalar(graph, node,
                            {.builder = b,
                             .element = [&](ir::ValueId id) { return v[index.at(id)]; },
                             .scalar = [&](const Expr& e) { return value_of_number(b, e); }});
  });
}
int scalar_term(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  return scalar_term(w, graph, node, [&](ir::ValueId operand) { return w.load(operand); });
}
void write_scalar(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  w.result(node.results[0], scalar_term(w, graph, node));
}

// (input, scales, zero points?, axis, ..): scales and zero points per element of one dimension, which is
// the argument `axis`.
std::optional<int> channel_axis(const ir::Graph& graph, const ir::Node& node) {
  const auto* input = tensor_type(graph, arg::input(node));
  if (input == nullptr) return std::nullopt;
  const Expr* number = ops::as_number(arg::axis(node));
  const auto dim = number == nullptr ? std::nullopt : known_dim(*number, input->sizes.size());
  return dim && *dim >= 0 && *dim < static_cast<int>(input->sizes.size()) ? dim : std::nullopt;
}
bool fits_channels(const ir::Graph& graph, const ir::Node& node) {
  const auto axis = channel_axis(graph, node);
  if (!axis || !fits_scalar(graph, node)) return false;
  const Expr& size = tensor_type(graph, arg::input(node))->sizes[static_cast<size_t>(*axis)];
  for (const auto* type : {tensor_type(graph, arg::scales(node)), tensor_type(graph, arg::zero_points(node))}) {
    if (type != nullptr && (type->sizes.size() != 1 || !(type->sizes.front() == size))) return false;
  }
  return true;
}
void write_channels(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const int axis = *channel_axis(graph, node);
  const ir::ValueId input = ops::as_value(arg::input(node));
  w.result(node.results[0], scalar_term(w, graph, node, [&](ir::ValueId operand) {
             return operand == input ? w.load(operand) : w.load_along(operand, {axis});
           }));
}

// The node that computes what an in-place node writes into its first operand.
std::optional<ir::Node> functional_form(const ir::Node& node) {
  if (node.results.size() != 1 || node.results[0] == ir::kNone) return std::nullopt;
  const ir::Op* op = ops::functional_form(*node.op);
  if (op == nullptr) return std::nullopt;
  ir::Node functional = node;
  functional.op = op;
  return functional;
}
// Except for copies, operands must have the type of the operand that is written: the functional form does not know in
// which type others would be computed.
bool fits_any_write(const ir::Graph& graph, const ir::Node& node) {
  const auto functional = functional_form(node);
  if (!functional || arg::self.find(node) == nullptr) return false;
  const auto* self = self_type(graph, node);
  if (self == nullptr || ir::written_operands(node) != std::vector{self_of(node)}) return false;
  const auto operands = ir::operands(node);
  const bool converts = aten::copy::is(*functional);
  const bool same_types = std::all_of(operands.begin(), operands.end(), [&](ir::ValueId id) {
    const auto* type = tensor_type(graph, id);
    return type != nullptr && (converts || type->dtype == self->dtype);
  });
  return same_types && fits_broadcast(graph, node, *self) && ir::has_distinct_elements(*self, graph.symbols) &&
         fits_any_scalar(graph, *functional);
}
bool fits_write(const ir::Graph& graph, const ir::Node& node) {
  return fits_any_write(graph, node) && fits_scalar(graph, *functional_form(node));
}
void write_write(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  w.write(self_of(node), node.results[0], scalar_term(w, graph, *functional_form(node)));
}

// The only part of a concatenation that has elements, if it has the type and sizes of the result.
std::optional<ir::ValueId> only_part(const ir::Graph& graph, const ir::Node& node) {
  const auto* parts = aten::cat::is(node) ? aten::cat::tensors(node) : nullptr;
  const auto* result = parts == nullptr ? nullptr : tensor_type(graph, node.results.front());
  if (result == nullptr || !is_real_element(result->dtype)) return std::nullopt;
  std::optional<ir::ValueId> found;
  for (const TensorRef& part : *parts) {
    const auto* type = tensor_type(graph, part.id);
    if (type == nullptr || (!ir::is_empty(*type) && found)) return std::nullopt;
    if (!ir::is_empty(*type)) found = part.id;
  }
  const auto* type = found ? tensor_type(graph, *found) : nullptr;
  return type != nullptr && type->dtype == result->dtype && type->sizes == result->sizes ? found : std::nullopt;
}
bool fits_only_part(const ir::Graph& graph, const ir::Node& node) { return only_part(graph, node).has_value(); }
void write_only_part(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  w.result(node.results[0], w.load(*only_part(graph, node)));
}

constexpr Rule kChannels = {fits_channels, write_channels, TermKind::kElementwise};
constexpr RuleRow kChannelRules[] = {
    {quantized_decomposed::quantize_per_channel::kId, kChannels},
    {quantized_decomposed::dequantize_per_channel::kId, kChannels},
};

const Rule* find_rule(const ir::Graph& graph, const ir::Node& node) {
  static constexpr Rule kScalar = {fits_elementwise, write_scalar, TermKind::kElementwise};
  static constexpr Rule kOnlyPart = {fits_only_part, write_only_part, TermKind::kElementwise};
  static const ops::OperatorRows<Rule> rules = {kChannelRules,   reduction_rules(),     index_rules(),
                                                scatter_rules(), rearrangement_rules(), triangle_rules(),
                                                window_rules()};
  static constexpr Rule kInPlace = {fits_write, write_write, TermKind::kWrite};
  if (node.results.empty() || !node.views.empty() || !node.defines.empty() || node.op->is(ir::Trait::kOpaque))
    return nullptr;
  if (fits_only_part(graph, node)) return &kOnlyPart;
  const Rule* rule = rules.find(*node.op);
  if (rule == nullptr) rule = node.op->is(ir::Trait::kMutates) ? &kInPlace : &kScalar;
  return rule->fits(graph, node) && has_index_sizes(graph, node) ? rule : nullptr;
}

const LoneRule* find_lone_rule(const ir::Graph& graph, const ir::Node& node) {
  static const ops::OperatorRows<LoneRule> rules = {lone_product_rules(), lone_reduction_rules(), lone_scatter_rules(),
                                                    lone_rearrangement_rules(), lone_pool_rules()};
  static constexpr LoneRule kScalar = {fits_any_elementwise, write_scalar, space_of_result, no_walk};
  static constexpr LoneRule kInPlace = {fits_any_write, write_write, space_of_self, no_walk};
  if (node.results.empty() || !node.views.empty() || !node.defines.empty()) return nullptr;
  const LoneRule* rule = rules.find(*node.op);
  if (rule == nullptr) rule = node.op->is(ir::Trait::kMutates) ? &kInPlace : &kScalar;
  return rule->fits(graph, node) && has_index_sizes(graph, node) ? rule : nullptr;
}

std::vector<Expr> at_least_one_dimension(std::vector<Expr> space) {
  if (space.empty()) space.emplace_back(1);
  return space;
}

// The dimension along which the result, or what the node writes, is contiguous; the last one if there is none.
int lanes_of_result(const ir::Graph& graph, const ir::Node& node, size_t rank) {
  const bool mutates = node.op->is(ir::Trait::kMutates);
  const ir::ValueId id = mutates ? ir::written_operands(node).front() : node.results.front();
  const auto* type = tensor_type(graph, id);
  for (size_t d = 0; type != nullptr && d < std::min(rank, type->sizes.size()); ++d) {
    if (!type->sizes[d].is_int(1) && type->strides[d].is_int(1)) return static_cast<int>(d);
  }
  return static_cast<int>(rank) - 1;
}

}  // namespace

bool has_index_sizes(const ir::Graph& graph, const ir::Node& node) {
  if (graph.symbols.empty()) return true;
  const auto fits = [&](ir::ValueId id) {
    const ir::TensorType* type = tensor_type(graph, id);
    return type == nullptr ||
           (std::ranges::all_of(type->sizes, loop::is_index) && std::ranges::all_of(type->strides, loop::is_index));
  };
  return std::ranges::all_of(ir::operands(node), fits) && std::ranges::all_of(node.results, fits);
}

void write_terms(TermWriter& writer, const ir::Graph& graph, const ir::Node& node) {
  if (const Rule* rule = find_rule(graph, node)) return rule->write(writer, graph, node);
  const LoneRule* rule = find_lone_rule(graph, node);
  NG_CHECK(rule != nullptr, node.op->name, " has no terms");
  rule->write(writer, graph, node);
}

std::optional<LoneForm> lone_form(const ir::Graph& graph, const ir::Node& node) {
  if (const Rule* rule = find_rule(graph, node)) {
    if (rule->kind == TermKind::kConcatenation) return std::nullopt;
    LoneForm form{.space = *space_of(graph, node), .walk = walk_of(graph, node)};
    form.lanes = form.walk.empty() ? lanes_of_result(graph, node, form.space.size()) : ir::kNone;
    return form;
  }
  const LoneRule* rule = find_lone_rule(graph, node);
  if (rule == nullptr) return std::nullopt;
  LoneForm form{.space = at_least_one_dimension(rule->space(graph, node)), .walk = rule->walk(graph, node)};
  form.lanes = rule->lanes != nullptr ? rule->lanes(graph, node) : lanes_of_result(graph, node, form.space.size());
  return form;
}

std::optional<TermKind> term_kind(const ir::Graph& graph, const ir::Node& node) {
  const Rule* rule = find_rule(graph, node);
  return rule == nullptr ? std::nullopt : std::optional(rule->kind);
}

std::vector<Expr> space_of_result(const ir::Graph& graph, const ir::Node& node) {
  return graph.value(node.results[0]).tensor().sizes;
}

std::vector<Expr> space_of_self(const ir::Graph& graph, const ir::Node& node) { return self_type(graph, node)->sizes; }

std::vector<int> no_walk(const ir::Graph&, const ir::Node&) { return {}; }

bool is_left_to_host(const ir::Graph& graph, const ir::Node& node) {
  const Rule* rule = find_rule(graph, node);
  return rule != nullptr && rule->is_left_to_host;
}

std::vector<int> walk_of(const ir::Graph& graph, const ir::Node& node) {
  const Rule* rule = find_rule(graph, node);
  if (rule == nullptr || rule->walk == nullptr) return {};
  std::vector<int> walk = rule->walk(graph, node);
  std::sort(walk.begin(), walk.end());
  return walk;
}

std::optional<std::vector<Expr>> space_of(const ir::Graph& graph, const ir::Node& node) {
  const Rule* rule = find_rule(graph, node);
  if (rule == nullptr) return std::nullopt;
  if (rule->make_space != nullptr) return at_least_one_dimension(rule->make_space(graph, node));
  ir::ValueId of = rule->space ? ops::as_value((*rule->space)(node)) : ir::kNone;
  for (const ir::ValueId result : node.results) {
    if (of == ir::kNone) of = result;
  }
  return at_least_one_dimension(graph.value(of).tensor().sizes);
}

}  // namespace npugraph::lower
