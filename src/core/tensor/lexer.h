// SPDX-License-Identifier: Apache-2.0
// The tokens shared by every text form (Graph, Program, expressions, attributes), and the parsers of the pieces they
// share.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/attr.h"

namespace npugraph {

enum class TokenKind : uint8_t { kIdentifier, kValue, kInteger, kFloat, kString, kPunctuation, kEnd };

// kIdentifier: [A-Za-z_][A-Za-z0-9_.]*; kValue: % and then [A-Za-z0-9_.]+ (text without the %); kInteger and kFloat:
// without sign; kString: unescaped text; kPunctuation: "->" or one character.
struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  int line = 1;
  int column = 1;
};

// Reads tokens from `text`, which must outlive the lexer. `//` starts a comment that ends with the line. Every error is
// a UserError that names `source`, line, column, what was found and what was expected.
class Lexer {
 public:
  Lexer(std::string_view text, std::string source);

  const Token& peek() const { return token_; }
  Token next();
  bool at(std::string_view punctuation_or_identifier) const;
  bool accept(std::string_view punctuation_or_identifier);
  void expect(std::string_view punctuation_or_identifier);
  std::string expect_identifier(std::string_view what);
  std::string expect_value(std::string_view what);
  std::string expect_string(std::string_view what);
  int64_t expect_integer(std::string_view what);  // with or without a minus sign
  // "[2, inf]", if it comes next: inclusive bounds, which otherwise stay as they are.
  void accept_bounds(int64_t& min, int64_t& max);
  DType expect_dtype();
  // The value of an enumeration whose words, in its order, are `names`.
  template <typename Enum, size_t n>
  Enum expect_word(const std::array<std::string_view, n>& names, std::string_view what) {
    for (size_t i = 0; i < n; ++i) {
      if (accept(names[i])) return static_cast<Enum>(i);
    }
    fail(what);
  }
  // "<source>:<line>:<column>: expected <expected>, found <the next token>".
  [[noreturn]] void fail(std::string_view expected) const;
  // "<source>:<line>:<column>: <message>", at a token already read.
  [[noreturn]] void fail_at(const Token& token, std::string_view message) const;

 private:
  int64_t expect_bound();
  void advance();
  void skip_blanks();
  void take(TokenKind kind, size_t begin, size_t end);
  void read_string();
  char read_escape();
  std::string_view text_;
  std::string source_;
  size_t position_ = 0;
  size_t line_begin_ = 0;  // offset of the first character of the current line
  int line_ = 1;
  Token token_;
};

// The word of a value of an enumeration, for the printers.
template <typename Enum, size_t n>
std::string_view name_in(const std::array<std::string_view, n>& names, Enum value) {
  return names[static_cast<size_t>(value)];
}

// " [2, inf]"; empty where both ends are open.
std::string bounds_text(int64_t min, int64_t max);

// Resolves names of the surrounding text for the shared parsers.
struct ParseContext {
  std::function<ScalarKind(std::string_view symbol)> kind_of;
  std::function<TensorRef(const std::string& name)> tensor;
};

Expr parse_expr(Lexer& lexer, const ParseContext& context);
Attr parse_attr(Lexer& lexer, const ParseContext& context);
std::string quote(std::string_view text);   // a string token with escapes
bool is_identifier(std::string_view text);  // whether it is one token of that kind

}  // namespace npugraph
