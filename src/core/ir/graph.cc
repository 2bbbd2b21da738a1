// SPDX-License-Identifier: Apache-2.0
#include "ir/graph.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "base/error.h"

namespace npugraph::ir {

namespace {

bool is_tensor_list(const SchemaReturn& r) { return r.type.starts_with("Tensor") && r.type.ends_with("[]"); }

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

std::string with_number(std::string_view stem, int32_t number) {
  char digits[12];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  std::string name;
  name.reserve(stem.size() + 1 + static_cast<size_t>(end - digits));
  name.append(stem).push_back('_');
  name.append(digits, end);
  return name;
}

}  // namespace

std::string Graph::unique_name(std::string_view wish) {
  std::string name(wish.empty() ? std::string_view("v") : wish);
  std::replace_if(name.begin(), name.end(), [](char c) { return !is_name_character(c); }, '_');
  auto [taken, fresh] = names_.try_emplace(name, 1);
  if (fresh) return name;
  std::string candidate;
  do {
    candidate = with_number(name, taken->second++);
  } while (names_.contains(candidate));
  names_.emplace(candidate, 1);
  return candidate;
}

ValueId Graph::add_value(Type type, std::string_view name) {
  values_.push_back({std::move(type), unique_name(name), kNone, 0});
  return num_values() - 1;
}

void Graph::rename(ValueId id, std::string_view name) {
  Value& renamed = values_[id];
  if (renamed.name == name) return;
  names_.erase(renamed.name);
  renamed.name = unique_name(name);
}

NodeId Graph::add_node(Node node, std::vector<Type> result_types, std::string_view name) {
  const NodeId id = num_nodes();
  if (node.results.empty()) node.results.assign(result_types.size(), 0);
  const auto defined = node.results.size() - std::count(node.results.begin(), node.results.end(), kNone);
  NG_CHECK(defined == result_types.size(), node.op ? node.op->name : "?", ": ", result_types.size(), " types for ",
           defined, " results");
  auto type = result_types.begin();
  for (size_t i = 0; i < node.results.size(); ++i) {
    if (node.results[i] == kNone) continue;
    const bool only_one = node.results.size() == 1;
    const ValueId result =
        add_value(std::move(*type++), only_one ? std::string(name) : with_number(name, static_cast<int32_t>(i)));
    values_[result].def = id;
    values_[result].result = static_cast<int32_t>(i);
    node.results[i] = result;
  }
  nodes_.push_back(std::move(node));
  return id;
}

NodeId Graph::append(Node node, std::vector<Type> result_types, std::string_view name) {
  const NodeId id = add_node(std::move(node), std::move(result_types), name);
  order_.push_back(id);
  return id;
}

NodeId Graph::insert_before(NodeId before, Node node, std::vector<Type> result_types, std::string_view name) {
  const auto place = std::find(order_.begin(), order_.end(), before);
  NG_CHECK(place != order_.end(), "node ", before, " is not in the order");
  const auto index = place - order_.begin();
  const NodeId id = add_node(std::move(node), std::move(result_types), name);
  order_.insert(order_.begin() + index, id);
  return id;
}

void Graph::erase(NodeId id) { nodes_[id].dead = true; }

void Graph::compact() {
  std::erase_if(order_, [this](NodeId id) { return nodes_[id].dead; });
}

void Graph::reorder(std::vector<NodeId> order) {
  compact();
  std::vector<int32_t> position(nodes_.size(), kNone);
  for (size_t i = 0; i < order.size(); ++i) {
    NG_CHECK(position[order[i]] == kNone && !nodes_[order[i]].dead, "node ", order[i], " is dead or named twice");
    position[order[i]] = static_cast<int32_t>(i);
  }
  NG_CHECK(order.size() == order_.size(), "the new order has ", order.size(), " nodes of ", order_.size());
  for (const NodeId id : order) {
    for (const ValueId operand : operands(nodes_[id])) {
      const NodeId def = values_[operand].def;
      NG_CHECK(def == kNone || position[def] < position[id], "%", values_[operand].name,
               " would be used before its definition");
    }
  }
  order_ = std::move(order);
}

void Graph::replace_uses(ValueId from, ValueId to) {
  std::vector<ValueId> replacement(values_.size(), kNone);
  replacement[from] = to;
  replace_uses(replacement);
}

void Graph::replace_uses(const std::vector<ValueId>& replacement) {
  const auto replace = [&](TensorRef& ref) {
    const ValueId from = ref.id;
    while (static_cast<size_t>(ref.id) < replacement.size() && replacement[ref.id] != kNone &&
           replacement[ref.id] != ref.id) {
      ref.id = replacement[ref.id];
    }
    NG_CHECK(ref.id == from || values_[ref.id].type == values_[from].type, "%", values_[from].name, " and %",
             values_[ref.id].name, " differ in type");
  };
  for (const NodeId id : order_) {
    if (nodes_[id].dead) continue;
    for (Attr& arg : nodes_[id].args) for_each_tensor(arg, replace);
  }
  for (Output& output : outputs) {
    if (auto* ref = std::get_if<TensorRef>(&output)) replace(*ref);
  }
}

bool Graph::is_input(ValueId id) const {
  return values_[id].def == kNone &&
         std::any_of(inputs.begin(), inputs.end(), [id](const Input& input) { return input.value == id; });
}

bool Graph::is_constant(ValueId id) const {
  return values_[id].def == kNone && std::any_of(constants.begin(), constants.end(),
                                                 [id](const Constant& constant) { return constant.value == id; });
}

std::vector<ValueId> operands(const Node& node) {
  std::vector<ValueId> found;
  for (const Attr& arg : node.args) {
    for_each_tensor(arg, [&](TensorRef ref) { found.push_back(ref.id); });
  }
  return found;
}

std::vector<ValueId> written_operands(const Node& node) {
  std::vector<ValueId> written;
  if (!node.op->is(Trait::kMutates)) return written;
  const auto& args = node.op->schema.args;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].is_write) for_each_tensor(node.args[i], [&](TensorRef ref) { written.push_back(ref.id); });
  }
  return written;
}

ResultCount result_count(const Schema& schema) {
  const auto& returns = schema.returns;
  const auto lists = static_cast<size_t>(std::count_if(returns.begin(), returns.end(), is_tensor_list));
  if (lists != 0) return {.fewest = returns.size() - lists, .most = SIZE_MAX};
  size_t fewest = returns.size();
  while (fewest > 0 && !returns[fewest - 1].type.starts_with("Tensor")) --fewest;
  return {.fewest = fewest, .most = returns.size()};
}

std::vector<int32_t> returns_of_results(const Schema& schema, size_t num_results) {
  const auto lists = static_cast<size_t>(std::count_if(schema.returns.begin(), schema.returns.end(), is_tensor_list));
  const size_t singles = schema.returns.size() - lists;
  const size_t list_length = lists == 0 || num_results < singles ? 0 : (num_results - singles) / lists;
  std::vector<int32_t> owner;
  owner.reserve(num_results);
  for (size_t i = 0; i < schema.returns.size(); ++i) {
    owner.insert(owner.end(), is_tensor_list(schema.returns[i]) ? list_length : 1, static_cast<int32_t>(i));
  }
  owner.resize(num_results, kNone);
  return owner;
}

std::vector<ValueId> returned_operands(const Node& node) {
  std::vector<ValueId> returned(node.results.size(), kNone);
  if (!node.op->is(Trait::kMutates)) return returned;
  const Schema& schema = node.op->schema;
  const auto owner = returns_of_results(schema, node.results.size());
  std::vector<size_t> taken(schema.args.size(), 0);  // per argument: tensors that earlier results already return
  for (size_t i = 0; i < owner.size(); ++i) {
    if (owner[i] == kNone || !schema.returns[owner[i]].is_write) continue;
    const auto same_alias = [&](const SchemaArg& arg) {
      return arg.is_write && arg.alias == schema.returns[owner[i]].alias;
    };
    const auto arg = std::find_if(schema.args.begin(), schema.args.end(), same_alias);
    if (arg == schema.args.end()) continue;
    const auto index = static_cast<size_t>(arg - schema.args.begin());
    std::vector<ValueId> refs;
    for_each_tensor(node.args[index], [&](TensorRef ref) { refs.push_back(ref.id); });
    if (taken[index] < refs.size()) returned[i] = refs[taken[index]++];
  }
  return returned;
}

std::vector<ValueId> shared_operands(const Node& node) {
  const Schema& schema = node.op->schema;
  std::vector<ValueId> shared;
  for (const int32_t owner : returns_of_results(schema, node.results.size())) {
    ValueId base = kNone;
    for (size_t i = 0; owner != kNone && i < schema.args.size(); ++i) {
      const SchemaReturn& returned = schema.returns[owner];
      if (returned.alias.empty() || returned.is_write || schema.args[i].alias != returned.alias) continue;
      for_each_tensor(node.args[i], [&](TensorRef ref) { base = base == kNone ? ref.id : base; });
    }
    shared.push_back(base);
  }
  return shared;
}

bool Graph::has_streams() const {
  return std::any_of(sections.begin(), sections.end(),
                     [&](const Section& section) { return section.stream != sections.front().stream; });
}

Uses find_uses(const Graph& graph) {
  Uses uses;
  uses.users.resize(graph.num_values());
  uses.output_uses.resize(graph.num_values(), 0);
  uses.position.resize(graph.num_nodes(), kNone);
  const auto& order = graph.order();
  for (size_t i = 0; i < order.size(); ++i) {
    const Node& node = graph.node(order[i]);
    if (node.dead) continue;
    uses.position[order[i]] = static_cast<int32_t>(i);
    for (const Attr& arg : node.args) {
      for_each_tensor(arg, [&](TensorRef ref) {
        auto& users = uses.users[ref.id];
        if (users.empty() || users.back() != order[i]) users.push_back(order[i]);
      });
    }
  }
  for (const Output& output : graph.outputs) {
    if (const auto* ref = std::get_if<TensorRef>(&output)) ++uses.output_uses[ref->id];
  }
  return uses;
}

SectionOrder::SectionOrder(const std::vector<Section>& sections) {
  const auto count = static_cast<int32_t>(sections.size());
  std::unordered_map<int32_t, int32_t> last_of_stream;
  for (int32_t id = 0; id < count; ++id) {
    std::vector<bool> before(count, false);
    const auto add = [&](int32_t other) {
      before[other] = true;
      for (int32_t i = 0; i < other; ++i) before[i] = before[i] || before_[other][i];
    };
    for (const int32_t other : sections[id].after) add(other);
    const auto [last, is_first] = last_of_stream.try_emplace(sections[id].stream, id);
    if (!is_first) add(last->second);
    last->second = id;
    before_.push_back(std::move(before));
  }
}

}  // namespace npugraph::ir
