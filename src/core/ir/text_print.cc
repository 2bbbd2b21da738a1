// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "ir/text.h"
#include "ir/text_parts.h"

namespace npugraph::ir {
namespace {

void write_list(std::string& out, const std::vector<Expr>& list, char open, char close) {
  out += open;
  for (size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out += ", ";
    out += list[i].str();
  }
  out += close;
}

void write_type(std::string& out, const Type& type) {
  if (const auto* opaque = std::get_if<OpaqueType>(&type)) {
    out.append("opaque ").append(quote(opaque->what));
    return;
  }
  const auto& tensor = std::get<TensorType>(type);
  out += name_of(tensor.dtype);
  write_list(out, tensor.sizes, '[', ']');
  write_list(out, tensor.strides, '{', '}');
  if (tensor.device != Device{}) out.append(" ").append(to_text(Attr(tensor.device), {}));
}

bool is_plain_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto rest = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '.'; };
  return !name.empty() && letter(name.front()) && std::all_of(name.begin(), name.end(), rest);
}

// Also prints graphs that break the rules, because the verifier's message shows them.
class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph) {}

  std::string print() {
    out_.reserve(static_cast<size_t>(graph_.num_nodes()) * 160 + 4096);
    out_.append("npugraph.graph ").append(std::to_string(kGraphTextVersion)).append(" @");
    out_.append(is_plain_name(graph_.name) ? graph_.name : quote(graph_.name)).append(" {\n");
    for (const Symbol& symbol : graph_.symbols) write_symbol(symbol);
    write_operators();
    write_sections();
    for (const Input& input : graph_.inputs) write_input(input);
    for (const Constant& constant : graph_.constants) write_constant(constant);
    for (const NodeId id : graph_.order()) {
      if (!graph_.node(id).dead) write_node(graph_.node(id));
    }
    write_outputs();
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  std::string name_of_value(ValueId id) const {
    return id >= 0 && id < graph_.num_values() ? graph_.value(id).name : cat("?", id);
  }

  void write_value(ValueId id) { id == kNone ? out_.append("none") : out_.append("%").append(name_of_value(id)); }

  void write_value_type(ValueId id) {
    id >= 0 && id < graph_.num_values() ? write_type(out_, graph_.value(id).type) : void(out_ += "none");
  }

  void write_symbol(const Symbol& symbol) {
    out_.append("  symbol ")
        .append(symbol.name)
        .append(" : ")
        .append(kScalarKindNames[static_cast<size_t>(symbol.kind)])
        .append(bounds_text(symbol.min, symbol.max))
        .append("\n");
  }

  // Declares the operators that the table does not know, in the order of their first use.
  void write_operators() {
    std::vector<const Op*> seen;
    for (const NodeId id : graph_.order()) {
      const Op* op = graph_.node(id).op;
      if (graph_.node(id).dead || op == nullptr || op->in_table()) continue;
      if (std::find(seen.begin(), seen.end(), op) != seen.end()) continue;
      seen.push_back(op);
      out_.append("  op ").append(quote(op->schema.text)).append(" traits(");
      const char* separator = "";
      for (const auto& [trait, name] : kTraitNames) {
        if (!op->is(trait)) continue;
        out_.append(separator).append(name);
        separator = ", ";
      }
      out_ += ")\n";
    }
  }

  // Writes nothing if the default section is the only one.
  void write_sections() {
    if (graph_.sections == std::vector{Section{}}) return;
    for (size_t i = 0; i < graph_.sections.size(); ++i) {
      const Section& section = graph_.sections[i];
      out_ += cat("  section ", i, " stream(", section.stream, ")");
      for (size_t k = 0; k < section.after.size(); ++k) out_ += cat(k == 0 ? " after(" : ", ", section.after[k]);
      if (!section.after.empty()) out_ += ')';
      const auto& [cube, vector] = section.limits;
      if (section.limits != CoreLimits{}) out_ += cat(" limits(", cube, ", ", vector, ")");
      out_ += '\n';
    }
  }

  void write_input(const Input& input) {
    out_ += "  input ";
    if (input.value != kNone) {
      write_value(input.value);
      out_ += " : ";
      write_value_type(input.value);
    } else {
      out_.append(input.scalar.str()).append(" : ").append(kScalarKindNames[static_cast<size_t>(input.scalar.kind())]);
    }
    out_.append(" ").append(kInputKindNames[static_cast<size_t>(input.kind)]);
    if (!input.source.empty()) out_.append(" ").append(quote(input.source));
    if (input.storage_offset) out_.append(" at(").append(input.storage_offset->str()).append(")");
    out_ += '\n';
  }

  void write_constant(const Constant& constant) {
    out_ += "  const ";
    write_value(constant.value);
    out_ += " : ";
    write_value_type(constant.value);
    if (constant.derived) out_ += " derived";
    const bool known = constant.value >= 0 && constant.value < graph_.num_values() && constant.data != nullptr;
    const auto elements = known ? print_elements(graph_.value(constant.value).type, *constant.data) : std::nullopt;
    out_.append(" = ").append(elements.value_or("external")).append("\n");
  }

  void write_args(const Node& node) {
    const auto& schema = node.op->schema.args;
    const size_t count = std::min(schema.size(), node.args.size());
    const auto is_default = [&](size_t i) { return schema[i].has_default && node.args[i] == schema[i].default_value; };
    size_t positional = 0;
    for (size_t i = 0; i < count; ++i) {
      if (!schema[i].keyword_only && !is_default(i)) positional = i + 1;
    }
    const char* separator = "";
    for (size_t i = 0; i < count; ++i) {
      if (schema[i].keyword_only ? is_default(i) : i >= positional) continue;
      out_ += separator;
      separator = ", ";
      if (schema[i].keyword_only) out_.append(schema[i].name).append("=");
      write_arg(node.args[i]);
    }
  }

  void write_arg(const Attr& arg) {
    if (const auto* ref = std::get_if<TensorRef>(&arg)) return write_value(ref->id);
    out_ += to_text(arg, [this](TensorRef ref) { return name_of_value(ref.id); });
  }

  void write_views(const Node& node) {
    out_ += " view(";
    for (size_t i = 0; i < node.views.size(); ++i) {
      if (i > 0) out_ += "; ";
      out_ += node.views[i].offset.str();
    }
    out_ += ')';
  }

  void write_defines(const Node& node) {
    out_ += " defines(";
    for (size_t i = 0; i < node.defines.size(); ++i) {
      const SymbolDef& def = node.defines[i];
      if (i > 0) out_ += ", ";
      out_ += def.symbol;
      if (def.kind != ScalarKind::kInt) out_.append(" : ").append(kScalarKindNames[static_cast<size_t>(def.kind)]);
      out_.append(" = result ").append(std::to_string(def.result));
      if (def.dim != kNone) out_.append(" dim ").append(std::to_string(def.dim));
    }
    out_ += ')';
  }

  void write_results(const Node& node) {
    if (node.results.empty()) return;
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (i > 0) out_ += ", ";
      write_value(node.results[i]);
    }
    out_ += " : ";
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (i > 0) out_ += ", ";
      write_value_type(node.results[i]);
    }
    out_ += " = ";
  }

  void write_node(const Node& node) {
    out_ += "  ";
    write_results(node);
    out_.append(node.op == nullptr ? "?" : node.op->name).append("(");
    if (node.op != nullptr) write_args(node);
    out_ += ')';
    if (!node.views.empty()) write_views(node);
    if (!node.defines.empty()) write_defines(node);
    if (node.callable != kNone) out_.append(" callable(").append(std::to_string(node.callable)).append(")");
    if (node.section != 0) out_.append(" section(").append(std::to_string(node.section)).append(")");
    if (!node.origin.node.empty() || !node.origin.source.empty()) {
      out_.append(" @ ").append(quote(node.origin.node));
      if (!node.origin.source.empty()) out_.append(" ").append(quote(node.origin.source));
    }
    out_ += '\n';
  }

  void write_outputs() {
    out_ += "  return";
    const char* separator = " ";
    for (const Output& output : graph_.outputs) {
      out_ += separator;
      separator = ", ";
      if (const auto* ref = std::get_if<TensorRef>(&output)) {
        write_value(ref->id);
      } else if (const auto* e = std::get_if<Expr>(&output)) {
        out_ += e->str();
      } else {
        out_ += "none";
      }
    }
    out_ += '\n';
  }

  const Graph& graph_;
  std::string out_;
};

}  // namespace

std::string to_text(const Type& type) {
  std::string out;
  write_type(out, type);
  return out;
}

std::string print(const Graph& graph) { return Printer(graph).print(); }

}  // namespace npugraph::ir
