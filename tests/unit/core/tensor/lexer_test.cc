// SPDX-License-Identifier: Apache-2.0
#include "tensor/lexer.h"

#include <gtest/gtest.h>

#include "tensor/expr_test_util.h"

namespace npugraph {
namespace {

// "kind:text" of every token.
std::vector<std::string> tokens(std::string_view text) {
  static constexpr const char* kKinds[] = {"name", "value", "int", "float", "string", "punct", "end"};
  std::vector<std::string> out;
  Lexer lexer(text, "test");
  while (lexer.peek().kind != TokenKind::kEnd) {
    Token token = lexer.next();
    out.push_back(cat(kKinds[static_cast<int>(token.kind)], ":", token.text));
  }
  return out;
}

using Tokens = std::vector<std::string>;

TEST(Lexer, SplitsText) {
  EXPECT_EQ(tokens("%a.1 = aten.add.Tensor(%0, 4)"), (Tokens{"value:a.1", "punct:=", "name:aten.add.Tensor", "punct:(",
                                                             "value:0", "punct:,", "int:4", "punct:)"}));
  EXPECT_EQ(tokens("1 1.5 2e3 1.e-2 3e x"),
            (Tokens{"int:1", "float:1.5", "float:2e3", "float:1.e-2", "int:3", "name:e", "name:x"}));
  EXPECT_EQ(tokens("-> - > @x"), (Tokens{"punct:->", "punct:-", "punct:>", "punct:@", "name:x"}));
  EXPECT_EQ(tokens(""), Tokens{});
}

TEST(Lexer, SkipsBlanksAndComments) {
  EXPECT_EQ(tokens(" a // rest, %x \"\n\tb// end"), (Tokens{"name:a", "name:b"}));
  EXPECT_EQ(tokens("\"// no comment\""), (Tokens{"string:// no comment"}));
}

TEST(Lexer, StringsUnescapeAndQuoteEscapes) {
  const std::string text = std::string("a\"b\\c\n\t\r\x01\x7f\xc3\xa9\0z", 14);
  EXPECT_EQ(quote(text), "\"a\\\"b\\\\c\\n\\t\\r\\x01\\x7f\xc3\xa9\\x00z\"");
  const std::string quoted = quote(text);
  Lexer lexer(quoted, "test");
  EXPECT_EQ(lexer.expect_string("a string"), text);
}

TEST(Lexer, CountsLinesAndColumns) {
  Lexer lexer("a\n  bb\n\n%c", "test");
  EXPECT_EQ(lexer.peek().line, 1);
  lexer.next();
  EXPECT_EQ(lexer.peek().line, 2);
  EXPECT_EQ(lexer.peek().column, 3);
  lexer.next();
  EXPECT_EQ(lexer.peek().line, 4);
  EXPECT_EQ(lexer.peek().column, 1);
}

TEST(Lexer, AcceptsAndExpects) {
  Lexer lexer("return \"return\" %v -12", "test");
  EXPECT_TRUE(lexer.at("return"));
  EXPECT_FALSE(lexer.accept("input"));
  lexer.expect("return");
  EXPECT_FALSE(lexer.at("return"));  // a string is no keyword
  EXPECT_EQ(lexer.expect_string("a string"), "return");
  EXPECT_FALSE(lexer.at("v"));  // a value is no keyword either
  EXPECT_EQ(lexer.expect_value("a value"), "v");
  EXPECT_EQ(lexer.expect_integer("a number"), -12);
}

TEST(Lexer, ErrorsNamePlaceExpectedAndFound) {
  auto error = [](const char* text, auto read) {
    return error_of([&] {
      Lexer lexer(text, "graph.txt");
      read(lexer);
    });
  };
  EXPECT_EQ(error("\n %x", [](Lexer& l) { l.expect("="); }), "graph.txt:2:2: expected '=', found '%x'");
  EXPECT_EQ(error("", [](Lexer& l) { l.expect("="); }), "graph.txt:1:1: expected '=', found the end of the text");
  EXPECT_EQ(error("\"t\"", [](Lexer& l) { l.expect_identifier("a name"); }),
            "graph.txt:1:1: expected a name, found \"t\"");
  EXPECT_EQ(error("x", [](Lexer& l) { l.expect_value("a value"); }), "graph.txt:1:1: expected a value, found 'x'");
  EXPECT_EQ(error("1.5", [](Lexer& l) { l.expect_integer("a size"); }), "graph.txt:1:1: expected a size, found '1.5'");
  EXPECT_EQ(error("99999999999999999999", [](Lexer& l) { l.expect_integer("a size"); }),
            "graph.txt:1:1: the integer 99999999999999999999 does not fit 64 bits");
}

TEST(Lexer, MalformedTokensAreErrors) {
  EXPECT_EQ(error_of([] { tokens("a %"); }), "test:1:3: expected a name after '%'");
  EXPECT_EQ(error_of([] { tokens("a `"); }), "test:1:3: unexpected character \"`\"");
  EXPECT_EQ(error_of([] { tokens("a \x80"); }), "test:1:3: unexpected character \"\x80\"");
  EXPECT_EQ(error_of([] { tokens("\"abc\ndef\""); }), "test:1:1: this string has no closing '\"' on its line");
  EXPECT_EQ(error_of([] { tokens("\"abc\\"); }).substr(0, 32), "test:1:1: unknown escape in this");
  EXPECT_EQ(error_of([] { tokens("\"\\q\""); }).substr(0, 32), "test:1:1: unknown escape in this");
  EXPECT_EQ(error_of([] { tokens("\"\\x4\""); }).substr(0, 32), "test:1:1: unknown escape in this");
}

}  // namespace
}  // namespace npugraph
