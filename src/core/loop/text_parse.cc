// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "base/error.h"
#include "loop/op.h"
#include "loop/text.h"
#include "tensor/lexer.h"

namespace npugraph::loop {
namespace {

constexpr std::string_view kKernelHead = "npugraph.loop ";

class Parser {
 public:
  Parser(std::string_view text, std::string source) : source_(source), lexer_(text, std::move(source)) {
    context_.kind_of = [this](std::string_view symbol) { return kind_of(symbol); };
    context_.tensor = [this](const std::string&) -> TensorRef { lexer_.fail("an expression"); };
  }

  Kernel parse() {
    parse_head();
    while (parse_declaration()) {
    }
    parse_block(kernel_.body);
    if (lexer_.peek().kind != TokenKind::kEnd) lexer_.fail("the end of the text");
    kernel_.dtypes.assign(max_id_ + 1, DType::kBool);
    for (const auto& [id, value] : values_) kernel_.dtypes[id] = value.dtype;
    const std::string violation = verify(kernel_);
    if (!violation.empty()) throw UserError(cat(source_, ": ", violation));
    return std::move(kernel_);
  }

 private:
  void parse_head();
  bool parse_declaration();
  void parse_scalar();
  void parse_buffer(Buffer::Kind kind);
  void parse_block(std::vector<Stmt>& block);
  Stmt parse_stmt();
  Stmt parse_value();
  Load parse_load(ValueId id);
  Let parse_let(ValueId id);
  Store parse_store();
  Check parse_check();
  For parse_for(For::Kind kind);
  Scan parse_scan();
  Reduction parse_reduction();

  // Small pieces.
  ValueId value_id(const Token& token);
  ValueId define();
  void define(ValueId id, const Token& token, DType dtype);
  ValueId use();
  int32_t buffer_index();
  Expr expr();
  Expr bracketed_expr();
  ScalarKind kind_of(std::string_view symbol);
  bool is_visible(ValueId id) const {
    const auto found = values_.find(id);
    return found != values_.end() && found->second.visible;
  }
  void hide_after(size_t num_visible);

  struct Value {
    DType dtype;
    bool visible;
  };

  std::string source_;
  Lexer lexer_;
  ParseContext context_;
  Kernel kernel_;
  Token expr_start_;
  ValueId max_id_ = kNone;
  std::unordered_map<ValueId, Value> values_;
  std::vector<ValueId> visible_;             // the values of the enclosing blocks
  std::vector<std::string> loop_variables_;  // of the enclosing loops
};

ValueId Parser::value_id(const Token& token) {
  ValueId id = kNone;
  const char* end = token.text.data() + token.text.size();
  const auto [stop, error] = std::from_chars(token.text.data(), end, id);
  if (token.kind == TokenKind::kValue && error == std::errc() && stop == end && id >= 0 && id < kMaxValues) return id;
  lexer_.fail_at(token, cat("expected a value, % and a number below ", kMaxValues));
}

void Parser::define(ValueId id, const Token& token, DType dtype) {
  if (!values_.emplace(id, Value{dtype, true}).second)
    lexer_.fail_at(token, cat("the value %", id, " is defined twice"));
  max_id_ = std::max(max_id_, id);
  visible_.push_back(id);
}

// Hides all values of the stack except the first `num_visible`.
void Parser::hide_after(size_t num_visible) {
  for (size_t i = num_visible; i < visible_.size(); ++i) values_.at(visible_[i]).visible = false;
  visible_.resize(num_visible);
}

// "%3 : f32"
ValueId Parser::define() {
  const Token token = lexer_.next();
  const ValueId id = value_id(token);
  lexer_.expect(":");
  define(id, token, lexer_.expect_dtype());
  return id;
}

ValueId Parser::use() {
  const Token token = lexer_.next();
  const ValueId id = value_id(token);
  if (!is_visible(id)) lexer_.fail_at(token, cat("the value %", id, " is not visible here"));
  return id;
}

int32_t Parser::buffer_index() {
  const Token token = lexer_.peek();
  const std::string name = lexer_.expect_identifier("a buffer");
  for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
    if (kernel_.buffers[i].name == name) return static_cast<int32_t>(i);
  }
  lexer_.fail_at(token, cat("the buffer ", name, " is not declared above"));
}

Expr Parser::expr() {
  expr_start_ = lexer_.peek();
  return parse_expr(lexer_, context_);
}

Expr Parser::bracketed_expr() {
  lexer_.expect("[");
  Expr e = expr();
  lexer_.expect("]");
  return e;
}

ScalarKind Parser::kind_of(std::string_view symbol) {
  for (const ScalarArg& scalar : kernel_.scalars) {
    if (scalar.name == symbol) return scalar.kind;
  }
  if (std::find(loop_variables_.begin(), loop_variables_.end(), symbol) != loop_variables_.end()) {
    return ScalarKind::kInt;
  }
  if (is_visible(index_value(symbol))) return ScalarKind::kInt;
  lexer_.fail_at(expr_start_, cat("the symbol ", symbol, " of this expression is not visible here"));
}

void Parser::parse_head() {
  lexer_.expect("npugraph.loop");
  const Token token = lexer_.peek();
  const int64_t version = lexer_.expect_integer("a version");
  if (version != kLoopVersion) {
    lexer_.fail_at(token, cat("a kernel of version ", version, "; this build reads version ", kLoopVersion));
  }
  lexer_.expect("@");
  kernel_.name = lexer_.peek().kind == TokenKind::kString ? lexer_.next().text : lexer_.expect_identifier("a name");
  lexer_.expect("{");
}

bool Parser::parse_declaration() {
  if (lexer_.accept("scalar")) return parse_scalar(), true;
  for (size_t i = 0; i < kBufferKindNames.size(); ++i) {
    if (lexer_.accept(kBufferKindNames[i])) return parse_buffer(static_cast<Buffer::Kind>(i)), true;
  }
  return false;
}

void Parser::parse_scalar() {
  ScalarArg scalar;
  scalar.name = lexer_.expect_identifier("a name");
  lexer_.expect(":");
  scalar.kind = lexer_.expect_word<ScalarKind>(kScalarKindNames, "int, float or bool");
  kernel_.scalars.push_back(std::move(scalar));
}

void Parser::parse_buffer(Buffer::Kind kind) {
  Buffer buffer;
  buffer.kind = kind;
  buffer.name = lexer_.expect_identifier("a name");
  lexer_.expect(":");
  buffer.dtype = lexer_.expect_dtype();
  if (is_scratch(kind)) buffer.elements = bracketed_expr();
  kernel_.buffers.push_back(std::move(buffer));
}

// The statements up to "}".
void Parser::parse_block(std::vector<Stmt>& block) {
  const size_t outside = visible_.size();
  while (!lexer_.accept("}")) block.push_back(parse_stmt());
  hide_after(outside);
}

Stmt Parser::parse_stmt() {
  if (lexer_.peek().kind == TokenKind::kValue) return parse_value();
  if (lexer_.accept("store")) return {parse_store()};
  if (lexer_.accept("check")) return {parse_check()};
  if (lexer_.accept("for")) return {parse_for(For::Kind::kSerial)};
  for (size_t i = 0; i < kForKindNames.size(); ++i) {
    if (!lexer_.accept(kForKindNames[i])) continue;
    lexer_.expect("for");
    return {parse_for(static_cast<For::Kind>(i))};
  }
  lexer_.fail("a statement or '}'");
}

Stmt Parser::parse_value() {
  const Token token = lexer_.next();
  const ValueId id = value_id(token);
  lexer_.expect(":");
  const DType type = lexer_.expect_dtype();
  lexer_.expect("=");
  const bool is_load = lexer_.accept("load");
  Stmt stmt = is_load ? Stmt{parse_load(id)} : Stmt{parse_let(id)};
  define(id, token, type);
  return stmt;
}

Load Parser::parse_load(ValueId id) {
  Load load;
  load.id = id;
  load.buffer = buffer_index();
  load.index = bracketed_expr();
  if (lexer_.accept("where")) {
    load.mask = use();
    lexer_.expect("else");
    load.otherwise = use();
  }
  load.ahead = lexer_.accept("ahead");
  return load;
}

Let Parser::parse_let(ValueId id) {
  Let let;
  let.id = id;
  const Token token = lexer_.peek();
  const auto op = parse_op(lexer_.expect_identifier("an operator"));
  if (!op) lexer_.fail_at(token, cat("unknown operator ", token.text));
  let.op = *op;
  if (let.op == Op::kIndex || let.op == Op::kScalar) {
    let.index = expr();
  } else if (let.op == Op::kConstant) {
    const Expr number = expr();
    if (!number.is_constant()) lexer_.fail_at(expr_start_, "expected a number");
    let.number = number.value();
  } else {
    do {
      let.args.push_back(use());
    } while (lexer_.accept(","));
  }
  return let;
}

Store Parser::parse_store() {
  Store store;
  store.buffer = buffer_index();
  store.index = bracketed_expr();
  lexer_.expect("=");
  store.value = use();
  if (lexer_.accept("where")) store.mask = use();
  store.streaming = lexer_.accept("streaming");
  return store;
}

Check Parser::parse_check() {
  Check check;
  check.condition = use();
  lexer_.expect(",");
  check.message = lexer_.expect_string("a message");
  if (lexer_.accept(",")) check.shown = use();
  return check;
}

For Parser::parse_for(For::Kind kind) {
  if (loop_variables_.size() >= kMaxLoopDepth) {
    lexer_.fail_at(lexer_.peek(), cat("loops nest deeper than ", kMaxLoopDepth, " levels"));
  }
  For loop;
  loop.kind = kind;
  loop.var = lexer_.expect_identifier("a loop variable");
  lexer_.expect("<");
  loop.extent = expr();
  if (lexer_.accept("grain")) loop.grain = expr();
  const size_t outside = visible_.size();
  if (lexer_.accept("scan")) {
    lexer_.expect("(");
    do {
      loop.scans.push_back(parse_scan());
    } while (lexer_.accept(","));
    lexer_.expect(")");
  }
  lexer_.expect("{");
  loop_variables_.push_back(loop.var);
  parse_block(loop.body);
  loop_variables_.pop_back();
  hide_after(outside);
  if (lexer_.accept("reduce")) {
    lexer_.expect("(");
    do {
      loop.reductions.push_back(parse_reduction());
    } while (lexer_.accept(","));
    lexer_.expect(")");
  }
  return loop;
}

// The value of a scan is defined below, that of a reduction above in a block that has ended; verify checks both.
Scan Parser::parse_scan() {
  Scan scan;
  scan.result = define();
  lexer_.expect("=");
  scan.combine = lexer_.expect_word<Combine>(kCombineNames, "sum, product, min, max, and, or");
  scan.value = value_id(lexer_.next());
  return scan;
}

Reduction Parser::parse_reduction() {
  Reduction reduction;
  reduction.result = define();
  if (lexer_.accept("at")) {
    const Token token = lexer_.next();
    reduction.index_result = value_id(token);
    define(reduction.index_result, token, DType::kI64);
  }
  lexer_.expect("=");
  reduction.combine = lexer_.expect_word<Combine>(kCombineNames, "sum, product, min, max, and, or");
  reduction.value = value_id(lexer_.next());
  return reduction;
}

}  // namespace

Kernel parse(std::string_view text, std::string source) { return Parser(text, std::move(source)).parse(); }

std::vector<Kernel> parse_all(std::string_view text, const std::string& source) {
  const std::string next = cat("\n", kKernelHead);
  std::vector<Kernel> kernels;
  while (!text.empty()) {
    const size_t at = text.find(next);
    const size_t end = at == std::string_view::npos ? text.size() : at + 1;
    kernels.push_back(parse(text.substr(0, end), source));
    text.remove_prefix(end);
  }
  return kernels;
}

bool is_kernel_text(std::string_view text) { return text.starts_with(kKernelHead); }

}  // namespace npugraph::loop
