// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "program/program.h"
#include "program/text.h"
#include "tensor/lexer.h"

namespace npugraph::program {
namespace {

// Reads declarations in any order, except that a symbol must stand before the expressions that use it. Numbers that
// refer to something are checked by verify() at the end.
class Parser {
 public:
  Parser(std::string_view text, std::string source) : source_(source), lexer_(text, std::move(source)) {
    context_.kind_of = [this](std::string_view symbol) {
      return program_.symbols[symbol_index(symbol, lexer_.peek())].kind;
    };
    context_.tensor = [this](const std::string& name) {
      return TensorRef{number_in(name, "an operand's number after %")};
    };
  }

  Program parse() {
    parse_head();
    while (!lexer_.accept("}")) parse_declaration();
    if (lexer_.peek().kind != TokenKind::kEnd) lexer_.fail("the end of the text");
    for (Output& output : program_.outputs) find_input_of(output);
    const std::string violation = verify(program_);
    if (!violation.empty()) throw UserError(cat(source_, ": ", violation));
    return std::move(program_);
  }

 private:
  void parse_head();
  void parse_declaration();
  void parse_symbol();
  void parse_buffer();
  void parse_constant();
  void parse_input();
  void parse_task();
  bool parse_operand(Task& task);
  bool parse_task_clause(Task& task);
  void parse_defines(Task& task);
  void parse_output();
  void find_input_of(Output& output) const;

  // Small pieces.
  int32_t number(std::string_view what);
  int32_t number_in(std::string_view digits, std::string_view what);
  int32_t prefixed_number(char prefix, std::string_view what);
  int32_t parenthesised_number(std::string_view what);
  int32_t number_or_none(std::string_view what);
  void expect_number(size_t expected, std::string_view what);
  Dim dim() { return program_.dim(parse_expr(lexer_, context_)); }
  Operand window();
  void dims(std::string_view open, std::string_view close, std::vector<Dim>& out);
  void integers(std::string_view open, std::string_view close, std::vector<int64_t>& out);
  int32_t symbol_index(std::string_view name, const Token& place);
  // Items up to ")", "(" included.
  template <typename Read>
  void list(Read read_item);

  std::string source_;
  Lexer lexer_;
  ParseContext context_;
  Program program_;
  std::unordered_map<std::string, int32_t> symbol_index_;
};

int32_t Parser::number(std::string_view what) {
  const Token token = lexer_.peek();
  const int64_t value = lexer_.expect_integer(what);
  if (value < 0 || value > INT32_MAX) lexer_.fail_at(token, cat(value, " is out of range for ", what));
  return static_cast<int32_t>(value);
}

int32_t Parser::number_in(std::string_view digits, std::string_view what) {
  int32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 0) lexer_.fail(what);
  return value;
}

int32_t Parser::prefixed_number(char prefix, std::string_view what) {
  const Token token = lexer_.peek();
  if (token.kind != TokenKind::kIdentifier || token.text[0] != prefix) lexer_.fail(what);
  const int32_t value = number_in(std::string_view(token.text).substr(1), what);
  lexer_.next();
  return value;
}

int32_t Parser::parenthesised_number(std::string_view what) {
  lexer_.expect("(");
  const int32_t value = number(what);
  lexer_.expect(")");
  return value;
}

int32_t Parser::number_or_none(std::string_view what) { return lexer_.accept("none") ? kNone : number(what); }

void Parser::expect_number(size_t expected, std::string_view what) {
  const Token token = lexer_.peek();
  if (number(what) != static_cast<int64_t>(expected)) lexer_.fail_at(token, cat("expected ", what, " ", expected));
}

template <typename Read>
void Parser::list(Read read_item) {
  lexer_.expect("(");
  if (lexer_.accept(")")) return;
  do {
    read_item();
  } while (lexer_.accept(","));
  lexer_.expect(")");
}

void Parser::dims(std::string_view open, std::string_view close, std::vector<Dim>& out) {
  lexer_.expect(open);
  if (lexer_.accept(close)) return;
  do {
    out.push_back(dim());
  } while (lexer_.accept(","));
  lexer_.expect(close);
}

void Parser::integers(std::string_view open, std::string_view close, std::vector<int64_t>& out) {
  lexer_.expect(open);
  if (lexer_.accept(close)) return;
  do {
    out.push_back(lexer_.expect_integer("an integer"));
  } while (lexer_.accept(","));
  lexer_.expect(close);
}

int32_t Parser::symbol_index(std::string_view name, const Token& place) {
  const auto found = symbol_index_.find(std::string(name));
  if (found == symbol_index_.end()) lexer_.fail_at(place, cat("the symbol ", name, " is not declared above"));
  return found->second;
}

Operand Parser::window() {
  Operand operand;
  operand.buffer = prefixed_number('b', "a buffer, b<number>");
  lexer_.expect("+");
  operand.byte_offset = dim();
  lexer_.expect(":");
  operand.dtype = lexer_.expect_dtype();
  dims("[", "]", operand.sizes);
  dims("{", "}", operand.strides);
  return operand;
}

void Parser::parse_head() {
  lexer_.expect("npugraph.program");
  const Token token = lexer_.peek();
  const int64_t version = lexer_.expect_integer("a version");
  if (version != kProgramVersion) {
    lexer_.fail_at(token, cat("a Program of version ", version, "; this build reads version ", kProgramVersion));
  }
  lexer_.expect("@");
  program_.name = lexer_.peek().kind == TokenKind::kString ? lexer_.next().text : lexer_.expect_identifier("a name");
  lexer_.expect("{");
}

void Parser::parse_declaration() {
  if (lexer_.accept("symbol")) return parse_symbol();
  if (lexer_.accept("buffer")) return parse_buffer();
  if (lexer_.accept("constant")) return parse_constant();
  if (lexer_.accept("input")) return parse_input();
  if (lexer_.accept("require")) return program_.conditions.push_back(dim().expr);
  if (lexer_.accept("task")) return parse_task();
  if (lexer_.accept("segment")) return program_.segments.push_back(number("a task's number"));
  if (lexer_.accept("output")) return parse_output();
  lexer_.fail("symbol, buffer, constant, input, require, task, segment, output or '}'");
}

void Parser::parse_symbol() {
  Symbol symbol;
  const Token token = lexer_.peek();
  symbol.name = lexer_.expect_identifier("a symbol");
  lexer_.expect(":");
  symbol.kind = lexer_.expect_word<ScalarKind>(kScalarKindNames, "int, float or bool");
  lexer_.accept_bounds(symbol.min, symbol.max);
  lexer_.expect("=");
  if (lexer_.accept("task")) {
    symbol.task = parenthesised_number("a task's number");
  } else if (lexer_.accept("input")) {
    symbol.input = parenthesised_number("an input's number");
  } else if (lexer_.accept("offset")) {
    symbol.input = parenthesised_number("an input's number");
    symbol.dim = kStorageOffset;
  } else {
    lexer_.expect("size");
    lexer_.expect("(");
    symbol.input = number("an input's number");
    lexer_.expect(",");
    symbol.dim = number("a dimension");
    lexer_.expect(")");
  }
  const auto index = static_cast<int32_t>(program_.symbols.size());
  if (!symbol_index_.emplace(symbol.name, index).second) {
    lexer_.fail_at(token, cat("the symbol ", symbol.name, " is declared twice"));
  }
  program_.symbols.push_back(std::move(symbol));
}

void Parser::parse_buffer() {
  const Token token = lexer_.peek();
  if (prefixed_number('b', "b<number>") != static_cast<int64_t>(program_.buffers.size())) {
    lexer_.fail_at(token, cat("expected b", program_.buffers.size()));
  }
  Buffer buffer;
  if (lexer_.peek().kind == TokenKind::kString) buffer.name = lexer_.next().text;
  buffer.cls = lexer_.expect_word<BufferClass>(kBufferClassNames, "input, parameter, constant, arena, output or heap");
  if (has_source(buffer.cls)) buffer.source = parenthesised_number("the number of an input or a constant");
  buffer.opaque = lexer_.accept("opaque");
  buffer.preallocated = lexer_.accept("preallocated");
  if (lexer_.at("device")) buffer.device = std::get<Device>(parse_attr(lexer_, context_));
  if (lexer_.accept("bytes")) {
    lexer_.expect("(");
    buffer.bytes = dim();
    lexer_.expect(")");
  }
  if (lexer_.accept("live")) {
    lexer_.expect("(");
    buffer.first_task = number("a task's number");
    lexer_.expect(",");
    buffer.last_task = number("a task's number");
    lexer_.expect(")");
  }
  program_.buffers.push_back(std::move(buffer));
}

void Parser::parse_constant() {
  const Token token = lexer_.peek();
  if (prefixed_number('c', "c<number>") != static_cast<int64_t>(program_.constants.size())) {
    lexer_.fail_at(token, cat("expected c", program_.constants.size()));
  }
  Constant constant;
  constant.name = lexer_.expect_string("the constant's name");
  lexer_.expect(":");
  constant.dtype = lexer_.expect_dtype();
  integers("[", "]", constant.sizes);
  integers("{", "}", constant.strides);
  constant.derived = lexer_.accept("derived");
  lexer_.expect("bytes");
  lexer_.expect("(");
  constant.bytes = lexer_.expect_integer("a number of bytes");
  lexer_.expect(")");
  program_.constants.push_back(std::move(constant));
}

void Parser::parse_input() {
  expect_number(program_.inputs.size(), "input");
  Input input;
  input.source = lexer_.expect_string("the input's source");
  if (!lexer_.accept("scalar")) {
    input.buffer = prefixed_number('b', "scalar or a buffer, b<number>");
    lexer_.expect(":");
    input.dtype = lexer_.expect_dtype();
    dims("[", "]", input.sizes);
    dims("{", "}", input.strides);
    if (lexer_.accept("at")) {
      lexer_.expect("(");
      input.storage_offset = dim();
      lexer_.expect(")");
    }
    input.mutated = lexer_.accept("mutated");
  }
  program_.inputs.push_back(std::move(input));
}

void Parser::parse_task() {
  expect_number(program_.tasks.size(), "task");
  Task task;
  task.kind = lexer_.expect_word<TaskKind>(kTaskKindNames, "a kind of task, such as kernel, aten, loop or matmul");
  task.name = lexer_.expect_string("the task's name");
  if (lexer_.accept("stream")) task.stream = parenthesised_number("a stream");
  if (lexer_.accept("waits")) list([&] { task.waits.push_back(number("a task's number")); });
  if (lexer_.accept("limits")) {
    lexer_.expect("(");
    task.limits.cube = number("a number of workers");
    lexer_.expect(",");
    task.limits.vector = number("a number of workers");
    lexer_.expect(")");
  }
  if (lexer_.accept("callable")) task.callable = parenthesised_number("a callable");
  task.foreign = lexer_.accept("foreign");
  lexer_.expect("{");
  while (!lexer_.accept("}")) {
    if (!parse_operand(task) && !parse_task_clause(task)) {
      lexer_.fail(
          "read, write, readwrite, args, results, schema, defines, may_share, origin, source, reason, releases or '}'");
    }
  }
  for (const Attr& arg : task.args) {
    for_each_expr(arg, [&](const Expr& e) {
      if (!e.is_constant()) task.scalars.push_back(program_.dim(e).expr);
    });
  }
  program_.tasks.push_back(std::move(task));
}

bool Parser::parse_operand(Task& task) {
  for (size_t i = 0; i < kAccessNames.size(); ++i) {
    if (!lexer_.accept(kAccessNames[i])) continue;
    const bool copied = lexer_.accept("copied");
    task.operands.push_back(window());
    task.operands.back().access = static_cast<Access>(i);
    task.operands.back().copied = copied;
    return true;
  }
  return false;
}

bool Parser::parse_task_clause(Task& task) {
  if (lexer_.accept("args")) {
    list([&] { task.args.push_back(parse_attr(lexer_, context_)); });
  } else if (lexer_.accept("results")) {
    list([&] { task.results.push_back(number_or_none("an operand's number or none")); });
  } else if (lexer_.accept("schema")) {
    task.schema = lexer_.expect_string("a schema");
  } else if (lexer_.accept("defines")) {
    parse_defines(task);
  } else if (lexer_.accept("may_share")) {
    list([&] {
      Share share;
      share.written = number("an operand's number");
      lexer_.expect("=");
      share.read = number("an operand's number");
      task.may_share.push_back(share);
    });
  } else if (lexer_.accept("origin")) {
    task.origin = lexer_.expect_string("the name of a node");
  } else if (lexer_.accept("source")) {
    task.source = lexer_.expect_string("a source line");
  } else if (lexer_.accept("reason")) {
    task.reason = lexer_.expect_string("a reason");
  } else if (lexer_.accept("releases")) {
    list([&] { task.releases.push_back(prefixed_number('b', "a buffer, b<number>")); });
  } else {
    return false;
  }
  return true;
}

void Parser::parse_defines(Task& task) {
  list([&] {
    Defined defined;
    const Token token = lexer_.peek();
    defined.symbol = symbol_index(lexer_.expect_identifier("a symbol"), token);
    lexer_.expect("=");
    const bool scalar = lexer_.accept("result");
    if (!scalar) lexer_.expect("size");
    lexer_.expect("(");
    if (scalar) {
      defined.result = number("a result's number");
    } else {
      defined.operand = number("an operand's number");
      lexer_.expect(",");
      defined.dim = number("a dimension");
    }
    lexer_.expect(")");
    task.defines.push_back(defined);
  });
}

void Parser::parse_output() {
  Output output;
  if (lexer_.accept("tensor")) {
    output.kind = Output::Kind::kTensor;
    output.tensor = window();
  } else if (lexer_.accept("input")) {
    output.kind = Output::Kind::kInput;
    output.input = number("an input's number");
  } else if (lexer_.accept("scalar")) {
    output.kind = Output::Kind::kScalar;
    output.scalar = dim();
    lexer_.expect(":");
    output.scalar_kind = lexer_.expect_word<ScalarKind>(kScalarKindNames, "int, float or bool");
  } else if (!lexer_.accept("none")) {
    lexer_.fail("tensor, input, scalar or none");
  }
  program_.outputs.push_back(std::move(output));
}

void Parser::find_input_of(Output& output) const {
  if (output.kind != Output::Kind::kTensor) return;
  const auto buffer = static_cast<size_t>(output.tensor.buffer);
  if (buffer >= program_.buffers.size()) return;
  const BufferClass cls = program_.buffers[buffer].cls;
  if (cls == BufferClass::kInput || cls == BufferClass::kParameter) output.input = program_.buffers[buffer].source;
}

}  // namespace

Program parse(std::string_view text, std::string source_name) { return Parser(text, std::move(source_name)).parse(); }

}  // namespace npugraph::program
