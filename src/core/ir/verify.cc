// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "ir/graph.h"
#include "ir/text.h"
#include "ir/text_parts.h"

namespace npugraph::ir {
namespace {

// Whether an argument of this schema type may hold `arg`.
bool fits(const Attr& arg, std::string_view type);

bool fits_element(const Attr& arg, std::string_view type) {
  if (type == "Tensor") {
    const auto* ref = std::get_if<TensorRef>(&arg);
    return ref != nullptr ? ref->id != TensorRef::kAbsent
                          : std::holds_alternative<Expr>(arg) || std::holds_alternative<std::complex<double>>(arg);
  }
  if (type == "Scalar" || type == "complex") {
    return std::holds_alternative<Expr>(arg) || std::holds_alternative<std::complex<double>>(arg);
  }
  if (type == "SymInt" || type == "int" || type == "float" || type == "bool" || type == "SymFloat" ||
      type == "SymBool") {
    const auto* e = std::get_if<Expr>(&arg);
    return e != nullptr && (type.ends_with("loat") || e->kind() != ScalarKind::kFloat);
  }
  if (type == "str" || type == "Dimname") return std::holds_alternative<std::string>(arg);
  if (type == "ScalarType") return std::holds_alternative<DType>(arg);
  if (type == "Layout") return std::holds_alternative<Layout>(arg);
  if (type == "MemoryFormat") return std::holds_alternative<MemoryFormat>(arg);
  if (type == "Device") return std::holds_alternative<Device>(arg);
  if (type == "Generator") return std::holds_alternative<None>(arg);
  return true;  // a type that only Python operators have
}

bool fits_list(const Attr& arg, std::string_view element) {
  const bool optional = element.ends_with('?');
  if (optional) element.remove_suffix(1);
  if (element == "Tensor") {
    const auto* refs = std::get_if<std::vector<TensorRef>>(&arg);
    return refs != nullptr && (optional || std::none_of(refs->begin(), refs->end(),
                                                        [](TensorRef ref) { return ref.id == TensorRef::kAbsent; }));
  }
  if (element == "str") return std::holds_alternative<std::vector<std::string>>(arg);
  const auto* list = std::get_if<std::vector<Expr>>(&arg);
  return list != nullptr &&
         std::all_of(list->begin(), list->end(), [&](const Expr& e) { return fits_element(Attr(e), element); });
}

bool fits(const Attr& arg, std::string_view type) {
  if (type.ends_with('?')) return std::holds_alternative<None>(arg) || fits(arg, type.substr(0, type.size() - 1));
  if (!type.ends_with(']')) return fits_element(arg, type);
  const std::string_view element = type.substr(0, type.rfind('['));
  return element.ends_with(']') || fits_list(arg, element);  // lists of lists belong to Python operators
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), defined_(graph.num_values(), false) {}

  std::string verify() {
    check_sections();
    check_symbols();
    check_inputs();
    check_constants();
    std::vector<bool> seen(graph_.num_nodes(), false);
    for (const NodeId id : graph_.order()) {
      if (!error_.empty()) break;
      if (id < 0 || id >= graph_.num_nodes()) {
        fail("the order names node ", id, " of ", graph_.num_nodes());
      } else if (!graph_.node(id).dead) {
        if (seen[id]) fail("node ", id, " stands twice in the order");
        seen[id] = true;
        check_node(id);
      }
    }
    check_outputs();
    return std::move(error_);
  }

 private:
  template <typename... Parts>
  void fail(const Parts&... parts) {
    if (error_.empty()) error_ = cat(where(), parts...);
  }

  std::string where() const {
    if (at_outputs_) return "return: ";
    if (node_ == nullptr) return "";
    if (node_->op == nullptr) return "node without operator: ";
    for (const ValueId id : node_->results) {
      if (id >= 0 && id < graph_.num_values()) return cat("%", graph_.value(id).name, " = ", node_->op->name, ": ");
    }
    return cat(node_->op->name, ": ");
  }

  void check_sections() {
    const auto count = static_cast<int32_t>(graph_.sections.size());
    if (count == 0) fail("no section");
    for (int32_t id = 0; id < count; ++id) {
      const Section& section = graph_.sections[id];
      if (section.stream < 0) fail("section ", id, " is of stream ", section.stream);
      if (section.limits.cube < 0 || section.limits.vector < 0) fail("section ", id, " has a limit below 0");
      for (const int32_t other : section.after) {
        if (other < 0 || other >= id) fail("section ", id, " is after ", other);
      }
    }
    if (!error_.empty() || !graph_.has_streams()) return;
    section_order_.emplace(graph_.sections);
    closed_.assign(count, false);
  }

  // A replay takes tasks in the order of the graph, so everything that a node waits for must come before the node.
  void check_section_order(const Node& node) {
    if (!section_order_ || !node.views.empty()) return;
    if (closed_[node.section]) return fail("section ", node.section, " goes on behind one that is after it");
    for (int32_t other = 0; other < node.section; ++other) {
      if (section_order_->precedes(other, node.section)) closed_[other] = true;
    }
  }

  // Symbols that nodes define become known where they are defined; the others are known from the start.
  void check_symbols() {
    for (const Symbol& symbol : graph_.symbols) {
      if (!symbols_.emplace(symbol.name, SymbolState{&symbol, true}).second)
        fail("symbol '", symbol.name, "' is declared twice");
      if (symbol.min > symbol.max) fail("symbol '", symbol.name, "' has no values");
    }
    for (const NodeId id : graph_.order()) {
      if (id < 0 || id >= graph_.num_nodes() || graph_.node(id).dead) continue;
      for (const SymbolDef& def : graph_.node(id).defines) {
        const auto symbol = symbols_.find(def.symbol);
        if (symbol != symbols_.end()) symbol->second.known = false;
      }
    }
  }

  void check_expr(const Expr& e) {
    if (e.is_constant()) return;
    if (e.op() != ExprOp::kSymbol) {
      for (const Expr& arg : e.args()) check_expr(arg);
      return;
    }
    const auto symbol = symbols_.find(e.symbol_name());
    if (symbol == symbols_.end()) return fail("symbol '", e.symbol_name(), "' is not declared");
    if (!symbol->second.known) fail("symbol '", e.symbol_name(), "' is used before its definition");
    if (symbol->second.symbol->kind != e.kind()) fail("symbol '", e.symbol_name(), "' is used as another kind");
  }

  void check_type(ValueId id) {
    const auto* type = std::get_if<TensorType>(&graph_.value(id).type);
    if (type == nullptr) return;
    if (type->sizes.size() != type->strides.size()) {
      fail("%", graph_.value(id).name, " has ", type->sizes.size(), " sizes and ", type->strides.size(), " strides");
    }
    for (const auto* list : {&type->sizes, &type->strides}) {
      for (const Expr& e : *list) {
        check_expr(e);
        if (e.kind() != ScalarKind::kInt) fail("%", graph_.value(id).name, " has a size or stride that is no integer");
        if (const auto value = e.as_int(); value && *value < 0)
          fail("%", graph_.value(id).name, " has a negative size or stride");
      }
    }
  }

  // Records the definition of a value. Fails on a second one, and on one that differs from Value::def.
  bool define(ValueId id, NodeId def, int32_t result) {
    if (id < 0 || id >= graph_.num_values()) return fail("value ", id, " does not exist"), false;
    const Value& value = graph_.value(id);
    if (defined_[id]) return fail("%", value.name, " is defined twice"), false;
    if (value.def != def || (def != kNone && value.result != result)) {
      return fail("%", value.name, " says that node ", value.def, " defines it"), false;
    }
    if (!names_.insert(value.name).second) fail("two values are called %", value.name);
    defined_[id] = true;
    check_type(id);
    return error_.empty();
  }

  void check_inputs() {
    for (const Input& input : graph_.inputs) {
      if (input.value != kNone) {
        define(input.value, kNone, 0);
        if (input.storage_offset) check_expr(*input.storage_offset);
      } else {
        check_expr(input.scalar);
      }
    }
  }

  void check_constants() {
    for (const Constant& constant : graph_.constants) {
      if (!define(constant.value, kNone, 0)) continue;
      const Value& value = graph_.value(constant.value);
      if (constant.data == nullptr) fail("constant %", value.name, " has no data");
      if (!value.is_tensor() || constant.data == nullptr || constant.data->data == nullptr) continue;
      const auto elements = constant_elements(value.type);
      if (!elements) {
        fail("constant %", value.name, " has symbolic sizes");
      } else if (constant.data->bytes < *elements * size_of(value.tensor().dtype)) {
        fail("constant %", value.name, " has ", constant.data->bytes, " bytes, too few for ", to_text(value.type));
      }
    }
  }

  void check_node(NodeId id) {
    const Node& node = graph_.node(id);
    node_ = &node;
    if (node.op == nullptr) return fail("node ", id);
    check_operator(*node.op);
    check_args(node);
    if (!error_.empty()) return;
    check_definitions(node);
    for (size_t i = 0; i < node.results.size() && error_.empty(); ++i) {
      if (node.results[i] != kNone) define(node.results[i], id, static_cast<int32_t>(i));
    }
    if (!error_.empty()) return;
    check_number_of_results(node);
    check_views(node);
    check_returned(node);
    check_defined_sizes(node);
    if (node.op->is(Trait::kOpaque) != (node.callable != kNone))
      fail("an opaque operator, and no other, has a callable");
    if (node.section < 0 || node.section >= static_cast<int32_t>(graph_.sections.size()))
      return fail("section ", node.section, " is not declared");
    check_section_order(node);
    node_ = nullptr;
  }

  // The text form finds rows by name, so names must be unique.
  void check_operator(const Op& op) {
    const auto [known, fresh] = operators_.try_emplace(op.name, &op);
    if (!fresh && known->second != &op) fail("the graph has two different operators of this name");
  }

  void check_args(const Node& node) {
    const auto& schema = node.op->schema.args;
    if (node.args.size() != schema.size()) {
      return fail(node.args.size(), " arguments, the schema has ", schema.size(), ": ", node.op->schema.text);
    }
    for (size_t i = 0; i < schema.size(); ++i) {
      if (!fits(node.args[i], schema[i].type)) fail("argument '", schema[i].name, "' is no ", schema[i].type);
      for_each_tensor(node.args[i], [&](TensorRef ref) { check_use(ref.id); });
      for_each_expr(node.args[i], [&](const Expr& e) { check_expr(e); });
    }
  }

  void check_use(ValueId id) {
    if (id < 0 || id >= graph_.num_values()) return fail("value ", id, " does not exist");
    if (!defined_[id]) fail("%", graph_.value(id).name, " is used before its definition");
  }

  void check_definitions(const Node& node) {
    for (const SymbolDef& def : node.defines) {
      const auto symbol = symbols_.find(def.symbol);
      if (symbol == symbols_.end()) return fail("symbol '", def.symbol, "' is not declared");
      if (symbol->second.known) return fail("symbol '", def.symbol, "' is defined twice");
      if (symbol->second.symbol->kind != def.kind) return fail("symbol '", def.symbol, "' is declared as another kind");
      symbol->second.known = true;
    }
  }

  void check_number_of_results(const Node& node) {
    if (node.op->is(Trait::kOpaque)) return;
    const auto [fewest, most] = result_count(node.op->schema);
    if (node.results.size() < fewest || node.results.size() > most) {
      fail(node.results.size(), " results, the schema returns ", most > fewest ? "at least " : "", fewest);
    }
  }

  void check_views(const Node& node) {
    const bool is_view = node.op->is(Trait::kView);
    if (!is_view && !node.views.empty()) return fail("view offsets on an operator that is no view");
    if (!is_view) return;
    if (node.views.size() != node.results.size())
      return fail(node.views.size(), " view offsets for ", node.results.size(), " results");
    if (operands(node).empty()) return fail("a view of nothing");
    for (const View& view : node.views) {
      check_expr(view.offset);
      if (view.offset.kind() != ScalarKind::kInt) fail("view offset ", view.offset.str(), " is no integer");
    }
  }

  // A result that is a written argument has its type: no operator can change sizes or strides in place.
  void check_returned(const Node& node) {
    const auto returned = returned_operands(node);
    for (size_t i = 0; i < returned.size(); ++i) {
      if (returned[i] == kNone || node.results[i] == kNone) continue;
      const Value& result = graph_.value(node.results[i]);
      const Value& operand = graph_.value(returned[i]);
      if (result.type != operand.type) {
        fail("%", result.name, " is %", operand.name, " after the write, but its type is ", to_text(result.type),
             ", not ", to_text(operand.type));
      }
    }
  }

  void check_defined_sizes(const Node& node) {
    for (const SymbolDef& def : node.defines) {
      if (def.dim == kNone) {
        if (def.result < 0 || static_cast<size_t>(def.result) >= std::max<size_t>(1, node.op->schema.returns.size())) {
          fail("symbol '", def.symbol, "' is return ", def.result, ", which the schema does not have");
        }
        continue;
      }
      const bool known =
          def.result >= 0 && static_cast<size_t>(def.result) < node.results.size() && node.results[def.result] != kNone;
      const auto* type = known ? std::get_if<TensorType>(&graph_.value(node.results[def.result]).type) : nullptr;
      if (type == nullptr || def.dim < 0 || static_cast<size_t>(def.dim) >= type->sizes.size()) {
        fail("symbol '", def.symbol, "': result ", def.result, " has no dimension ", def.dim);
      } else if (type->sizes[def.dim] != Expr::symbol(def.symbol)) {
        fail("symbol '", def.symbol, "': the size of result ", def.result, " in dimension ", def.dim, " is ",
             type->sizes[def.dim].str());
      }
    }
  }

  void check_outputs() {
    if (!error_.empty()) return;
    at_outputs_ = true;
    for (const Output& output : graph_.outputs) {
      if (const auto* ref = std::get_if<TensorRef>(&output)) check_use(ref->id);
      if (const auto* e = std::get_if<Expr>(&output)) check_expr(*e);
    }
  }

  struct SymbolState {
    const Symbol* symbol = nullptr;
    bool known = false;
  };

  const Graph& graph_;
  std::optional<SectionOrder> section_order_;  // only with several streams
  std::vector<bool> closed_;                   // per section: whether a section that comes after it has begun
  std::vector<bool> defined_;
  std::unordered_map<std::string, SymbolState> symbols_;
  std::unordered_set<std::string_view> names_;
  std::unordered_map<std::string_view, const Op*> operators_;
  const Node* node_ = nullptr;  // the node that is being checked
  bool at_outputs_ = false;
  std::string error_;  // the first violation
};

}  // namespace

std::string verify(const Graph& graph) { return Verifier(graph).verify(); }

}  // namespace npugraph::ir
