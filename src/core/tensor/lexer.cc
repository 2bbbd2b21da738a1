// SPDX-License-Identifier: Apache-2.0
#include "tensor/lexer.h"

#include <charconv>

#include "base/error.h"

namespace npugraph {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool continues_name(char c) { return starts_name(c) || is_digit(c) || c == '.'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_punctuation(char c) { return std::string_view("()[]{}<>,:;=+-*/@!?&|#$^~.").find(c) != std::string_view::npos; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The end of the run of characters from `begin` that `belongs` accepts.
template <typename Predicate>
size_t scan(std::string_view text, size_t begin, Predicate belongs) {
  while (begin < text.size() && belongs(text[begin])) ++begin;
  return begin;
}

// The end of a number that starts at `begin`; `is_float` tells whether it has a fraction or an exponent.
size_t scan_number(std::string_view text, size_t begin, bool& is_float) {
  size_t end = scan(text, begin, is_digit);
  is_float = false;
  if (end < text.size() && text[end] == '.') {
    is_float = true;
    end = scan(text, end + 1, is_digit);
  }
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    size_t digits = end + 1;
    if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
    size_t exponent_end = scan(text, digits, is_digit);
    if (exponent_end > digits) {
      is_float = true;
      end = exponent_end;
    }
  }
  return end;
}

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd: return "the end of the text";
    case TokenKind::kString: return quote(token.text);
    case TokenKind::kValue: return cat("'%", token.text, "'");
    default: return cat("'", token.text, "'");
  }
}

}  // namespace

Lexer::Lexer(std::string_view text, std::string source) : text_(text), source_(std::move(source)) { advance(); }

Token Lexer::next() {
  Token token = std::move(token_);
  advance();
  return token;
}

bool Lexer::at(std::string_view punctuation_or_identifier) const {
  return (token_.kind == TokenKind::kPunctuation || token_.kind == TokenKind::kIdentifier) &&
         token_.text == punctuation_or_identifier;
}

bool Lexer::accept(std::string_view punctuation_or_identifier) {
  if (!at(punctuation_or_identifier)) return false;
  advance();
  return true;
}

void Lexer::expect(std::string_view punctuation_or_identifier) {
  if (!accept(punctuation_or_identifier)) fail(cat("'", punctuation_or_identifier, "'"));
}

std::string Lexer::expect_identifier(std::string_view what) {
  if (token_.kind != TokenKind::kIdentifier) fail(what);
  return next().text;
}

std::string Lexer::expect_value(std::string_view what) {
  if (token_.kind != TokenKind::kValue) fail(what);
  return next().text;
}

std::string Lexer::expect_string(std::string_view what) {
  if (token_.kind != TokenKind::kString) fail(what);
  return next().text;
}

DType Lexer::expect_dtype() {
  const auto found = parse_dtype(token_.text);
  if (!found) fail("an element type");
  next();
  return *found;
}

int64_t Lexer::expect_integer(std::string_view what) {
  bool negative = accept("-");
  if (token_.kind != TokenKind::kInteger) fail(what);
  Token token = next();
  std::string digits = negative ? "-" + token.text : token.text;
  int64_t value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc()) fail_at(token, cat("the integer ", digits, " does not fit 64 bits"));
  return value;
}

void Lexer::accept_bounds(int64_t& min, int64_t& max) {
  if (!accept("[")) return;
  min = expect_bound();
  expect(",");
  max = expect_bound();
  expect("]");
}

int64_t Lexer::expect_bound() {
  Lexer ahead = *this;
  const bool negative = ahead.accept("-");
  if (!ahead.accept("inf")) return expect_integer("a bound");
  *this = ahead;
  return negative ? INT64_MIN : INT64_MAX;
}

void Lexer::fail(std::string_view expected) const {
  fail_at(token_, cat("expected ", expected, ", found ", describe(token_)));
}

void Lexer::fail_at(const Token& token, std::string_view message) const {
  throw UserError(cat(source_, ":", token.line, ":", token.column, ": ", message));
}

void Lexer::skip_blanks() {
  while (position_ < text_.size()) {
    if (text_[position_] == '\n') {
      ++line_;
      line_begin_ = ++position_;
    } else if (is_space(text_[position_])) {
      ++position_;
    } else if (text_.substr(position_, 2) == "//") {
      position_ = scan(text_, position_, [](char c) { return c != '\n'; });
    } else {
      return;
    }
  }
}

void Lexer::take(TokenKind kind, size_t begin, size_t end) {
  token_.kind = kind;
  token_.text = text_.substr(begin, end - begin);
  position_ = end;
}

void Lexer::advance() {
  skip_blanks();
  token_ = Token{TokenKind::kEnd, "", line_, static_cast<int>(position_ - line_begin_) + 1};
  if (position_ == text_.size()) return;
  const char c = text_[position_];
  if (starts_name(c)) {
    take(TokenKind::kIdentifier, position_, scan(text_, position_, continues_name));
  } else if (is_digit(c)) {
    bool is_float = false;
    size_t end = scan_number(text_, position_, is_float);
    take(is_float ? TokenKind::kFloat : TokenKind::kInteger, position_, end);
  } else if (c == '"') {
    read_string();
  } else if (c == '%') {
    size_t end = scan(text_, position_ + 1, continues_name);
    if (end == position_ + 1) fail_at(token_, "expected a name after '%'");
    take(TokenKind::kValue, position_ + 1, end);
  } else if (text_.substr(position_, 2) == "->") {
    take(TokenKind::kPunctuation, position_, position_ + 2);
  } else if (is_punctuation(c)) {
    take(TokenKind::kPunctuation, position_, position_ + 1);
  } else {
    fail_at(token_, cat("unexpected character ", quote(text_.substr(position_, 1))));
  }
}

void Lexer::read_string() {
  token_.kind = TokenKind::kString;
  for (++position_; position_ < text_.size() && text_[position_] != '\n'; ++position_) {
    const char c = text_[position_];
    if (c == '"') {
      ++position_;
      return;
    }
    token_.text += c == '\\' ? read_escape() : c;
  }
  fail_at(token_, "this string has no closing '\"' on its line");
}

char Lexer::read_escape() {
  const std::string_view rest = text_.substr(position_ + 1);
  const char c = rest.empty() ? '\0' : rest[0];
  if (c == 'x' && rest.size() >= 3 && hex_digit(rest[1]) >= 0 && hex_digit(rest[2]) >= 0) {
    position_ += 3;
    return static_cast<char>(hex_digit(rest[1]) * 16 + hex_digit(rest[2]));
  }
  ++position_;
  switch (c) {
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case '\\':
    case '"': return c;
    default: fail_at(token_, R"(unknown escape in this string; known are \n \t \r \\ \" and \x with two hex digits)");
  }
}

bool is_identifier(std::string_view text) {
  return !text.empty() && starts_name(text[0]) && scan(text, 0, continues_name) == text.size();
}

std::string bounds_text(int64_t min, int64_t max) {
  if (min == INT64_MIN && max == INT64_MAX) return "";
  const std::string low = min == INT64_MIN ? "-inf" : std::to_string(min);
  const std::string high = max == INT64_MAX ? "inf" : std::to_string(max);
  return cat(" [", low, ", ", high, "]");
}

std::string quote(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      case '\r': out += "\\r"; break;
      case '\\':
      case '"': (out += '\\') += c; break;
      default:
        if (byte >= 0x20 && byte != 0x7f)
          out += c;
        else
          ((out += "\\x") += kHex[byte >> 4]) += kHex[byte & 15];
    }
  }
  return out += '"';
}

}  // namespace npugraph
