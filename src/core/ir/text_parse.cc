// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/words.h"
#include "ir/text.h"
#include "ir/text_parts.h"
#include "tensor/shape.h"

namespace npugraph::ir {
namespace {

// Converts an argument to the form that its schema type requires where the text is ambiguous: an empty list, or an
// integer for a float.
void coerce(Attr& arg, std::string_view type) {
  const auto to_float = [](Expr& e) {
    if (const auto value = e.as_int()) e = Expr::constant(Scalar::of_float(static_cast<double>(*value)));
  };
  if (auto* list = std::get_if<std::vector<Expr>>(&arg)) {
    if (type.starts_with("float[")) std::for_each(list->begin(), list->end(), to_float);
    if (!list->empty()) return;
    if (type.starts_with("Tensor")) arg = std::vector<TensorRef>();
    if (type.starts_with("str[")) arg = std::vector<std::string>();
  } else if (auto* e = std::get_if<Expr>(&arg); e != nullptr && (type == "float" || type == "float?")) {
    to_float(*e);
  }
}

class Parser {
 public:
  Parser(std::string_view text, std::string source, OpResolver& ops) : lexer_(text, std::move(source)), ops_(ops) {
    context_.kind_of = [this](std::string_view name) { return kind_of(name); };
    context_.tensor = [this](const std::string& name) { return TensorRef{find_value(name)}; };
  }

  Graph parse() {
    parse_header();
    bool returned = false;
    while (!returned) {
      statement_ = lexer_.peek();
      returned = parse_statement();
      check_pending();
    }
    lexer_.expect("}");
    if (lexer_.peek().kind != TokenKind::kEnd) lexer_.fail("the end of the text");
    return std::move(graph_);
  }

 private:
  void parse_header() {
    lexer_.expect("npugraph.graph");
    const Token at = lexer_.peek();
    const int64_t version = lexer_.expect_integer("the version of the text form");
    if (version != kGraphTextVersion) {
      lexer_.fail_at(at, cat("version ", version, " of the text form; this build reads version ", kGraphTextVersion));
    }
    lexer_.expect("@");
    graph_.name = lexer_.peek().kind == TokenKind::kString ? lexer_.next().text
                                                           : lexer_.expect_identifier("the name of the graph");
    lexer_.expect("{");
  }

  // True after `return`.
  bool parse_statement() {
    if (lexer_.accept("return")) {
      parse_outputs();
      return true;
    }
    if (lexer_.accept("symbol")) {
      parse_symbol();
    } else if (lexer_.accept("op")) {
      parse_operator();
    } else if (lexer_.accept("section")) {
      parse_section();
    } else if (lexer_.accept("input")) {
      parse_input();
    } else if (lexer_.accept("const")) {
      parse_constant();
    } else {
      parse_node();
    }
    return false;
  }

  void parse_section() {
    const Token at = lexer_.peek();
    if (num_sections_ == 0) graph_.sections.clear();
    if (parse_number("the number of a section") != num_sections_) lexer_.fail_at(at, cat("expected ", num_sections_));
    ++num_sections_;
    Section section;
    if (lexer_.accept("stream")) section.stream = parse_number_in_parentheses("the number of a stream");
    if (lexer_.accept("after")) {
      lexer_.expect("(");
      do {
        section.after.push_back(parse_number("the number of a section"));
      } while (lexer_.accept(","));
      lexer_.expect(")");
    }
    if (lexer_.accept("limits")) {
      lexer_.expect("(");
      section.limits.cube = parse_number("a number of workers");
      lexer_.expect(",");
      section.limits.vector = parse_number("a number of workers");
      lexer_.expect(")");
    }
    graph_.sections.push_back(std::move(section));
  }

  // Symbols

  ScalarKind kind_of(std::string_view name) {
    const auto known = symbols_.find(std::string(name));
    if (known != symbols_.end()) return known->second;
    pending_.emplace_back(name);
    return ScalarKind::kInt;
  }

  // Fails for undeclared symbols. A statement may use integer symbols that it defines itself
  // (`f32[u0] = ... defines(u0 = ...)`).
  void check_pending() {
    for (const std::string& name : pending_) {
      const auto known = symbols_.find(name);
      if (known == symbols_.end()) lexer_.fail_at(statement_, cat("symbol '", name, "' is used but not declared"));
      if (known->second != ScalarKind::kInt) {
        lexer_.fail_at(statement_, cat("symbol '", name, "' is not an integer: declare it before its first use"));
      }
    }
    pending_.clear();
  }

  void declare_symbol(Symbol symbol) {
    if (symbols_.emplace(symbol.name, symbol.kind).second) graph_.symbols.push_back(std::move(symbol));
  }

  ScalarKind parse_scalar_kind() {
    const Token at = lexer_.peek();
    const std::string word = lexer_.expect_identifier("int, float or bool");
    const auto name = std::find(kScalarKindNames.begin(), kScalarKindNames.end(), word);
    if (name == kScalarKindNames.end()) lexer_.fail_at(at, cat("expected int, float or bool, found '", word, "'"));
    return static_cast<ScalarKind>(name - kScalarKindNames.begin());
  }

  void parse_symbol() {
    Symbol symbol;
    const Token at = lexer_.peek();
    symbol.name = lexer_.expect_identifier("the name of a symbol");
    if (symbols_.contains(symbol.name)) lexer_.fail_at(at, cat("symbol '", symbol.name, "' is declared twice"));
    lexer_.expect(":");
    symbol.kind = parse_scalar_kind();
    lexer_.accept_bounds(symbol.min, symbol.max);
    declare_symbol(std::move(symbol));
  }

  // Operators

  void parse_operator() {
    const Token at = lexer_.peek();
    const std::string schema = lexer_.expect_string("the schema of an operator as a string");
    Traits traits = 0;
    if (lexer_.accept("traits")) {
      lexer_.expect("(");
      while (!lexer_.accept(")")) {
        if (traits != 0) lexer_.expect(",");
        traits = traits | parse_trait();
      }
    }
    const Op* op = nullptr;
    try {
      op = ops_.intern(schema, traits);
    } catch (const UserError& error) {
      lexer_.fail_at(at, error.what());
    }
    declared_ops_[op->name] = op;
  }

  Trait parse_trait() {
    const Token at = lexer_.peek();
    const std::string word = lexer_.expect_identifier("the name of a trait");
    const auto known =
        std::find_if(kTraitNames.begin(), kTraitNames.end(), [&](const auto& t) { return t.second == word; });
    if (known == kTraitNames.end()) lexer_.fail_at(at, cat("unknown trait '", word, "'"));
    return known->first;
  }

  const Op* parse_operator_name() {
    const Token at = lexer_.peek();
    const std::string name = lexer_.expect_identifier("a statement or an operator");
    const auto declared = declared_ops_.find(name);
    const Op* op = declared != declared_ops_.end() ? declared->second : ops_.find(name);
    if (op == nullptr) lexer_.fail_at(at, cat("unknown operator '", name, "'; declare it: op \"<schema>\" traits()"));
    return op;
  }

  // Values

  ValueId find_value(const std::string& name) const {
    const auto known = values_.find(name);
    if (known == values_.end()) lexer_.fail_at(statement_, cat("%", name, " is used but not defined"));
    return known->second;
  }

  void define(const Token& at, ValueId id) {
    if (!values_.emplace(at.text, id).second) lexer_.fail_at(at, cat("%", at.text, " is defined twice"));
    graph_.rename(id, at.text);
  }

  Token expect_value_token() {
    if (lexer_.peek().kind != TokenKind::kValue) lexer_.fail("a value");
    return lexer_.next();
  }

  std::vector<Expr> parse_expressions(std::string_view open, std::string_view close) {
    std::vector<Expr> list;
    lexer_.expect(open);
    while (!lexer_.accept(close)) {
      if (!list.empty()) lexer_.expect(",");
      list.push_back(parse_expr(lexer_, context_));
    }
    return list;
  }

  Type parse_type() {
    const Token at = lexer_.peek();
    const std::string word = lexer_.expect_identifier("a type");
    if (word == "opaque") return OpaqueType{lexer_.expect_string("what the value is, as a string")};
    const auto dtype = parse_dtype(word);
    if (!dtype) lexer_.fail_at(at, cat("expected an element type or opaque, found '", word, "'"));
    TensorType type;
    type.dtype = *dtype;
    type.sizes = parse_expressions("[", "]");
    type.strides = lexer_.at("{") ? parse_expressions("{", "}") : contiguous_strides(type.sizes);
    if (type.strides.size() != type.sizes.size()) {
      lexer_.fail_at(at, cat(type.sizes.size(), " sizes and ", type.strides.size(), " strides"));
    }
    if (lexer_.at("device")) type.device = std::get<Device>(parse_attr(lexer_, context_));
    return type;
  }

  void parse_input() {
    Input input;
    if (lexer_.peek().kind == TokenKind::kValue) {
      const Token name = lexer_.next();
      lexer_.expect(":");
      input.value = graph_.add_value(parse_type(), "");
      define(name, input.value);
    } else {
      parse_scalar_input(input);
    }
    const auto kind = std::find(kInputKindNames.begin(), kInputKindNames.end(), lexer_.peek().text);
    if (lexer_.peek().kind == TokenKind::kIdentifier && kind != kInputKindNames.end()) {
      lexer_.next();
      input.kind = static_cast<InputKind>(kind - kInputKindNames.begin());
    }
    if (lexer_.peek().kind == TokenKind::kString) input.source = lexer_.next().text;
    if (lexer_.accept("at")) {
      lexer_.expect("(");
      input.storage_offset = parse_expr(lexer_, context_);
      lexer_.expect(")");
    }
    graph_.inputs.push_back(std::move(input));
  }

  // `s0 : int`, which declares s0 unless it is declared already, or an expression.
  void parse_scalar_input(Input& input) {
    Lexer ahead = lexer_;
    const Token name = ahead.next();
    if (name.kind == TokenKind::kIdentifier && ahead.accept(":") && !symbols_.contains(name.text)) {
      lexer_ = ahead;
      const ScalarKind kind = parse_scalar_kind();
      declare_symbol({.name = name.text, .kind = kind});
      input.scalar = Expr::symbol(name.text, kind);
      return;
    }
    input.scalar = parse_expr(lexer_, context_);
    lexer_.expect(":");
    const Token at = lexer_.peek();
    if (parse_scalar_kind() != input.scalar.kind()) lexer_.fail_at(at, cat(input.scalar.str(), " is of another kind"));
  }

  void parse_constant() {
    const Token name = expect_value_token();
    lexer_.expect(":");
    Constant constant;
    constant.value = graph_.add_value(parse_type(), "");
    define(name, constant.value);
    constant.derived = lexer_.accept("derived");
    lexer_.expect("=");
    constant.data = lexer_.accept("external") ? std::make_shared<const ConstantData>()
                                              : parse_elements(lexer_, graph_.value(constant.value).type);
    graph_.constants.push_back(std::move(constant));
  }

  // Nodes

  void parse_node() {
    std::vector<Token> names;
    std::vector<Type> types;
    Node node;
    if (lexer_.peek().kind == TokenKind::kValue || lexer_.at("none")) parse_results(names, types, node);
    const Token at = lexer_.peek();
    node.op = parse_operator_name();
    parse_args(node);
    parse_annotations(node);
    check_number_of_results(node, at);
    if (types.empty() && !names.empty()) infer(types, node, at);
    const NodeId id = graph_.append(std::move(node), std::move(types), names.empty() ? "" : names.front().text);
    const auto& results = graph_.node(id).results;
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i] != kNone) define(names[i], results[i]);
    }
    // Again, because the provisional name of a later result may have taken the name of an earlier one.
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i] != kNone) graph_.rename(results[i], names[i].text);
    }
  }

  // `%a, none : f32[4]{1}, none =`, or `%a, none =`
  void parse_results(std::vector<Token>& names, std::vector<Type>& types, Node& node) {
    do {
      names.push_back(lexer_.at("none") ? lexer_.next() : expect_value_token());
      node.results.push_back(names.back().kind == TokenKind::kValue ? 0 : kNone);
    } while (lexer_.accept(","));
    if (lexer_.accept("=")) return;  // the rule of the operator gives the types
    lexer_.expect(":");
    for (size_t i = 0; i < names.size(); ++i) {
      if (i > 0) lexer_.expect(",");
      if (node.results[i] == kNone) {
        lexer_.expect("none");
      } else {
        types.push_back(parse_type());
      }
    }
    lexer_.expect("=");
  }

  void infer(std::vector<Type>& types, Node& node, const Token& at) const {
    std::optional<Inferred> inferred;
    try {
      inferred = ops_.infer(graph_, node);
    } catch (const UserError& error) {
      lexer_.fail_at(at, error.what());
    }
    if (!inferred) lexer_.fail_at(at, cat("no rule of ", node.op->name, " tells the types of its results: write them"));
    if (inferred->types.size() != node.results.size())
      lexer_.fail_at(at, cat(node.op->name, " returns ", counted(inferred->types.size(), "tensor"), " here, not ",
                             node.results.size()));
    for (size_t i = 0; i < node.results.size(); ++i) {
      if ((node.results[i] == kNone) == inferred->types[i].has_value())
        lexer_.fail_at(at, cat("result ", i, " of ", node.op->name, " is ",
                               inferred->types[i] ? "defined" : "undefined: write none"));
      if (inferred->types[i]) types.push_back(std::move(*inferred->types[i]));
    }
    if (node.views.empty()) node.views = std::move(inferred->views);
  }

  void check_number_of_results(const Node& node, const Token& at) const {
    if (node.op->is(Trait::kOpaque)) return;
    const auto [fewest, most] = result_count(node.op->schema);
    const size_t count = node.results.size();
    if (count >= fewest && count <= most) return;
    lexer_.fail_at(at,
                   cat(node.op->name, " returns ", most > fewest ? "at least " : "", fewest, " tensors, not ", count));
  }

  void parse_args(Node& node) {
    const auto& schema = node.op->schema.args;
    node.args.resize(schema.size());
    std::vector<bool> given(schema.size(), false);
    size_t position = 0;
    lexer_.expect("(");
    for (bool first = true; !lexer_.accept(")"); first = false) {
      if (!first) lexer_.expect(",");
      const Token at = lexer_.peek();
      const size_t index = argument_index(node, position);
      if (given[index])
        lexer_.fail_at(at, cat("argument '", schema[index].name, "' of ", node.op->name, " is given twice"));
      given[index] = true;
      node.args[index] = parse_attr(lexer_, context_);
      coerce(node.args[index], schema[index].type);
    }
    for (size_t i = 0; i < schema.size(); ++i) {
      if (given[i]) continue;
      if (!schema[i].has_default)
        lexer_.fail_at(statement_, cat(node.op->name, " needs argument '", schema[i].name, "'"));
      node.args[i] = schema[i].default_value;
    }
  }

  // Index of the argument that comes next: the named one, or the next by position.
  size_t argument_index(const Node& node, size_t& position) {
    const auto& schema = node.op->schema.args;
    if (lexer_.peek().kind == TokenKind::kIdentifier) {
      const auto named = std::find_if(schema.begin(), schema.end(),
                                      [this](const SchemaArg& arg) { return arg.name == lexer_.peek().text; });
      Lexer ahead = lexer_;
      if (named != schema.end() && (ahead.next(), ahead.accept("="))) {
        lexer_ = ahead;
        return static_cast<size_t>(named - schema.begin());
      }
    }
    if (position == schema.size() || schema[position].keyword_only) {
      lexer_.fail(cat("')': ", node.op->name, " takes ", counted(position, "argument"), " by position"));
    }
    return position++;
  }

  int32_t parse_number(std::string_view what) {
    const Token at = lexer_.peek();
    const int64_t number = lexer_.expect_integer(what);
    if (number < 0 || number > INT32_MAX) lexer_.fail_at(at, cat(what, " ", number, " is out of range"));
    return static_cast<int32_t>(number);
  }

  int32_t parse_number_in_parentheses(std::string_view what) {
    lexer_.expect("(");
    const int32_t number = parse_number(what);
    lexer_.expect(")");
    return number;
  }

  void parse_annotations(Node& node) {
    if (lexer_.accept("view")) {
      lexer_.expect("(");
      do {
        node.views.push_back({parse_expr(lexer_, context_)});
      } while (lexer_.accept(";"));
      lexer_.expect(")");
    }
    if (lexer_.accept("defines")) {
      lexer_.expect("(");
      do {
        node.defines.push_back(parse_definition());
      } while (lexer_.accept(","));
      lexer_.expect(")");
    }
    if (lexer_.accept("callable")) node.callable = parse_number_in_parentheses("the number of a callable");
    if (lexer_.accept("section")) node.section = parse_number_in_parentheses("the number of a section");
    if (lexer_.accept("@")) {
      node.origin.node = lexer_.expect_string("the FX node as a string");
      if (lexer_.peek().kind == TokenKind::kString) node.origin.source = lexer_.next().text;
    }
  }

  // `u0 = result 0 dim 1`, `u1 : float = result 0`
  SymbolDef parse_definition() {
    SymbolDef def;
    def.symbol = lexer_.expect_identifier("a symbol");
    if (lexer_.accept(":")) def.kind = parse_scalar_kind();
    lexer_.expect("=");
    lexer_.expect("result");
    def.result = parse_number("the number of a result");
    if (lexer_.accept("dim")) def.dim = parse_number("a dimension");
    declare_symbol({.name = def.symbol, .kind = def.kind});
    return def;
  }

  void parse_outputs() {
    if (lexer_.at("}")) return;
    do {
      if (lexer_.accept("none")) {
        graph_.outputs.emplace_back(None{});
      } else if (lexer_.peek().kind == TokenKind::kValue) {
        statement_ = lexer_.peek();
        graph_.outputs.emplace_back(TensorRef{find_value(lexer_.next().text)});
      } else {
        graph_.outputs.emplace_back(parse_expr(lexer_, context_));
      }
    } while (lexer_.accept(","));
  }

  Lexer lexer_;
  OpResolver& ops_;
  ParseContext context_;
  Graph graph_;
  int32_t num_sections_ = 0;  // declared so far
  Token statement_;           // first token of the current statement
  std::unordered_map<std::string, ValueId> values_;
  std::unordered_map<std::string, ScalarKind> symbols_;
  std::vector<std::string> pending_;  // symbols of this statement that are not declared so far
  std::unordered_map<std::string, const Op*> declared_ops_;
};

}  // namespace

Graph parse(std::string_view text, std::string source_name, OpResolver& ops) {
  return Parser(text, std::move(source_name), ops).parse();
}

}  // namespace npugraph::ir
