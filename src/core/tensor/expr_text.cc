// SPDX-License-Identifier: Apache-2.0
// Text form of expressions. What is printed parses to an equal expression.
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "tensor/expr_node.h"
#include "tensor/lexer.h"

namespace npugraph {
namespace {

// The loosest form that needs no parentheses at a place of the text.
enum class Level : uint8_t { kSum, kProduct, kFactor };

std::string float_text(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char buffer[40];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), v);
  NG_CHECK(error == std::errc(), "number too long");
  std::string text(buffer, end);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string constant_text(Scalar value) {
  switch (value.kind) {
    case ScalarKind::kInt: return std::to_string(value.i);
    case ScalarKind::kFloat: return float_text(value.f);
    case ScalarKind::kBool: return value.i != 0 ? "true" : "false";
  }
  NG_CHECK(false, "kind of a scalar");
}

bool is_float(const Expr& e) { return e.kind() == ScalarKind::kFloat; }

// The term with its sign changed if it prints with a leading minus sign that a sum can take over: "a - b", not "a +
// -b".
std::optional<Expr> without_minus(const Expr& term) {
  if (is_float(term)) {
    if (term.op() == ExprOp::kNeg) return term.args()[0];
    if (!term.is_constant() || !std::signbit(term.value().f) || std::isnan(term.value().f)) return std::nullopt;
    return Expr::constant(Scalar::of_float(-term.value().f));
  }
  const bool monomial = term.op() == ExprOp::kMul && !is_unexpanded(term);
  const std::optional<int64_t> coefficient = monomial ? term.args()[0].as_int() : term.as_int();
  if (!coefficient || *coefficient >= 0 || *coefficient == INT64_MIN) return std::nullopt;
  return Expr::make(ExprOp::kNeg, {term});
}

class ExprWriter {
 public:
  void write(const Expr& e, Level level) {
    const bool infix_product = e.op() == ExprOp::kMul && !is_unexpanded(e);
    const bool parentheses =
        (e.op() == ExprOp::kAdd && level > Level::kSum) || (infix_product && level > Level::kProduct);
    if (parentheses) text_ += '(';
    if (e.is_constant())
      text_ += constant_text(e.value());
    else if (e.op() == ExprOp::kSymbol)
      text_ += e.symbol_name();
    else if (e.op() == ExprOp::kAdd)
      write_sum(e.args());
    else if (infix_product)
      write_product(e.args());
    else if (e.op() == ExprOp::kNeg)
      write_negation(e.args()[0]);
    else
      write_call(e);
    if (parentheses) text_ += ')';
  }

  std::string take() { return std::move(text_); }

 private:
  void write_sum(std::span<const Expr> terms) {
    write(terms[0], Level::kProduct);
    for (const Expr& term : terms.subspan(1)) {
      std::optional<Expr> positive = without_minus(term);
      text_ += positive ? " - " : " + ";
      write(positive ? *positive : term, Level::kProduct);
    }
  }

  void write_product(std::span<const Expr> factors) {
    if (factors[0].is_int(-1)) {
      text_ += '-';
      factors = factors.subspan(1);
    }
    for (size_t i = 0; i < factors.size(); ++i) {
      if (i > 0) text_ += '*';
      write(factors[i], Level::kFactor);
    }
  }

  void write_negation(const Expr& e) {
    text_ += '-';
    write(e, Level::kFactor);
  }

  void write_call(const Expr& e) {
    (text_ += info_of(e.op()).name) += '(';
    for (size_t i = 0; i < e.args().size(); ++i) {
      if (i > 0) text_ += ", ";
      write(e.args()[i], Level::kSum);
    }
    text_ += ')';
  }

  std::string text_;
};

class Parser {
 public:
  Parser(Lexer& lexer, const std::function<ScalarKind(std::string_view)>& kind_of) : lexer_(lexer), kind_of_(kind_of) {}

  Expr parse_sum() {
    if (++depth_ > kMaxExprDepth) lexer_.fail_at(lexer_.peek(), too_deep());
    const Token start = lexer_.peek();
    std::vector<Expr> terms = {parse_product()};
    while (lexer_.at("+") || lexer_.at("-")) {
      const Token sign = lexer_.next();
      Expr term = parse_product();
      terms.push_back(sign.text == "-" ? make(sign, ExprOp::kNeg, {std::move(term)}) : std::move(term));
    }
    --depth_;
    return terms.size() == 1 ? terms[0] : make(start, ExprOp::kAdd, std::move(terms));
  }

 private:
  static std::string too_deep() { return cat("an expression nests deeper than ", kMaxExprDepth, " levels"); }

  // Errors about the arguments of an operator get the position of its first token.
  Expr make(const Token& where, ExprOp op, std::vector<Expr> args) {
    try {
      return Expr::make(op, std::move(args));
    } catch (const UserError& error) {
      lexer_.fail_at(where, error.what());
    }
  }

  Expr parse_product() {
    const Token start = lexer_.peek();
    std::vector<Expr> factors = {parse_factor()};
    while (lexer_.accept("*")) factors.push_back(parse_factor());
    return factors.size() == 1 ? factors[0] : make(start, ExprOp::kMul, std::move(factors));
  }

  Expr parse_factor() {
    const Token start = lexer_.peek();
    switch (start.kind) {
      case TokenKind::kInteger: return lexer_.expect_integer("an integer");
      case TokenKind::kFloat: return parse_float(lexer_.next());
      case TokenKind::kIdentifier: return parse_name(lexer_.next());
      default: break;
    }
    if (lexer_.accept("(")) {
      Expr e = parse_sum();
      lexer_.expect(")");
      return e;
    }
    if (!lexer_.accept("-")) lexer_.fail("an expression");
    if (lexer_.peek().kind == TokenKind::kInteger) return parse_negative(start, lexer_.next());
    if (++depth_ > kMaxExprDepth) lexer_.fail_at(start, too_deep());
    Expr operand = parse_factor();
    --depth_;
    return make(start, ExprOp::kNeg, {std::move(operand)});
  }

  // The negation of the smallest integer overflows, so the sign belongs to the literal.
  Expr parse_negative(const Token& start, const Token& digits) {
    const std::string text = "-" + digits.text;
    int64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) lexer_.fail_at(start, cat("the integer ", text, " does not fit 64 bits"));
    return value;
  }

  Expr parse_float(const Token& token) {
    double value = 0;
    auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (error != std::errc() || end != token.text.data() + token.text.size())
      lexer_.fail_at(token, cat("the number ", token.text, " does not fit a 64-bit float"));
    return Expr::constant(Scalar::of_float(value));
  }

  Expr parse_name(const Token& name) {
    if (lexer_.at("(")) return parse_call(name);
    if (name.text == "true") return Expr::constant(Scalar::of_bool(true));
    if (name.text == "false") return Expr::constant(Scalar::of_bool(false));
    if (name.text == "inf") return Expr::constant(Scalar::of_float(INFINITY));
    if (name.text == "nan") return Expr::constant(Scalar::of_float(NAN));
    if (name.text == "none") lexer_.fail_at(name, "expected an expression, found 'none'");
    return Expr::symbol(name.text, kind_of_(name.text));
  }

  Expr parse_call(const Token& name) {
    const OpInfo* info = find_function(name.text);
    if (!info) lexer_.fail_at(name, cat("unknown function '", name.text, "'"));
    lexer_.expect("(");
    std::vector<Expr> args;
    if (!lexer_.at(")")) {
      do args.push_back(parse_sum());
      while (lexer_.accept(","));
    }
    lexer_.expect(")");
    return make(name, info->op, std::move(args));
  }

  Lexer& lexer_;
  const std::function<ScalarKind(std::string_view)>& kind_of_;
  int depth_ = 0;
};

}  // namespace

std::string Expr::str() const {
  ExprWriter writer;
  writer.write(*this, Level::kSum);
  return writer.take();
}

Expr parse_expr(Lexer& lexer, const ParseContext& context) { return Parser(lexer, context.kind_of).parse_sum(); }

Expr parse_expr(std::string_view text, const std::function<ScalarKind(std::string_view)>& kind_of) {
  Lexer lexer(text, "expression");
  Expr e = Parser(lexer, kind_of).parse_sum();
  if (lexer.peek().kind != TokenKind::kEnd) lexer.fail("the end of the expression");
  return e;
}

}  // namespace npugraph
