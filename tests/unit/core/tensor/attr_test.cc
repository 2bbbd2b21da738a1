// SPDX-License-Identifier: Apache-2.0
#include "tensor/attr.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tensor/expr_test_util.h"
#include "tensor/lexer.h"

namespace npugraph {
namespace {

std::string text_of(const Attr& attr) {
  return to_text(attr, [](TensorRef ref) { return cat("t", ref.id); });
}

Attr parse(std::string_view text) {
  Lexer lexer(text, "test");
  const ParseContext context{kind_of, [](const std::string& name) { return TensorRef{std::stoi(name.substr(1))}; }};
  Attr attr = parse_attr(lexer, context);
  if (lexer.peek().kind != TokenKind::kEnd) lexer.fail("the end");
  return attr;
}

void expect_round_trip(const Attr& attr, std::string_view text) {
  EXPECT_EQ(text_of(attr), text);
  const Attr again = parse(text);
  EXPECT_EQ(again.index(), attr.index()) << text;
  EXPECT_TRUE(again == attr) << text;
}

TEST(Attr, EveryAlternativeRoundTrips) {
  expect_round_trip(None(), "none");
  expect_round_trip(TensorRef{3}, "%t3");
  expect_round_trip(std::vector<TensorRef>{{1}, {TensorRef::kAbsent}, {2}}, "[%t1, none, %t2]");
  expect_round_trip(std::vector<TensorRef>{{TensorRef::kAbsent}, {1}}, "[none, %t1]");
  expect_round_trip(expr("4*s0 + 1"), "4*s0 + 1");
  expect_round_trip(Expr(-3), "-3");
  expect_round_trip(expr("1.0"), "1.0");
  expect_round_trip(expr("true"), "true");
  expect_round_trip(std::vector<Expr>{expr("s0"), 4, expr("-1.5"), expr("false")}, "[s0, 4, -1.5, false]");
  expect_round_trip(std::complex<double>(1.0, -2.5), "complex(1.0, -2.5)");
  expect_round_trip(std::complex<double>(INFINITY, 0.0), "complex(inf, 0.0)");
  expect_round_trip(std::string("say \"hi\"\n"), R"("say \"hi\"\n")");
  expect_round_trip(std::vector<std::string>{"a", "b\\"}, R"(["a", "b\\"])");
  expect_round_trip(Device{"npu", 0}, "device(\"npu\", 0)");
  expect_round_trip(Device{"cpu", -1}, "device(\"cpu\")");
}

TEST(Attr, EveryEnumeratorRoundTrips) {
  for (int i = 0; i < kNumDTypes; ++i) expect_round_trip(static_cast<DType>(i), name_of(static_cast<DType>(i)));
  for (int i = 0; i <= static_cast<int>(Layout::kJagged); ++i)
    expect_round_trip(static_cast<Layout>(i), text_of(static_cast<Layout>(i)));
  for (int i = 0; i <= static_cast<int>(MemoryFormat::kChannelsLast3d); ++i)
    expect_round_trip(static_cast<MemoryFormat>(i), text_of(static_cast<MemoryFormat>(i)));
  EXPECT_EQ(text_of(Layout::kSparseCsr), "layout.sparse_csr");
  EXPECT_EQ(text_of(MemoryFormat::kPreserve), "memory_format.preserve");
}

TEST(Attr, EmptyListsKeepTheirType) {
  expect_round_trip(std::vector<Expr>(), "[]");
  expect_round_trip(std::vector<TensorRef>(), "tensors[]");
  expect_round_trip(std::vector<std::string>(), "strings[]");
}

TEST(Attr, SymbolsNamedLikeWordsAreTold) {
  expect_round_trip(Expr::symbol("u8"), "(u8)");
  expect_round_trip(Expr::symbol("u8") + 1, "(u8 + 1)");
  expect_round_trip(Expr::symbol("device"), "(device)");
  expect_round_trip(std::vector<Expr>{Expr::symbol("u16"), 1}, "[u16, 1]");
  EXPECT_TRUE(parse("u8") == Attr(DType::kU8));
}

TEST(Attr, AnAbsentTensorReadsAsNone) {
  EXPECT_EQ(text_of(TensorRef{}), "none");
  EXPECT_TRUE(parse("none") == Attr(None()));
}

TEST(Attr, NanPartsAreNumbers) {
  EXPECT_EQ(text_of(std::complex<double>(NAN, 1)), "complex(nan, 1.0)");
  EXPECT_TRUE(std::isnan(std::get<std::complex<double>>(parse("complex(nan, 1)")).real()));
}

TEST(Attr, ErrorsNameThePlace) {
  auto error = [](const char* text) { return error_of([&] { parse(text); }); };
  EXPECT_EQ(error("[%t1, 3]"), "test:1:7: expected a value or none, found '3'");
  EXPECT_EQ(error("[1, \"a\"]"), "test:1:5: expected an expression, found \"a\"");
  EXPECT_EQ(error("[1, 2"), "test:1:6: expected ']', found the end of the text");
  EXPECT_EQ(error("complex(s0, 1.0)"), "test:1:9: expected a number, found s0");
  EXPECT_EQ(error("device(cpu)"), "test:1:8: expected a device type as a string, found 'cpu'");
  EXPECT_EQ(error("device(\"cpu\", -1)"), "test:1:15: the device index -1 is out of range");
  EXPECT_EQ(error("layout.dense + 1.5.2"), "test:1:19: expected the end, found '.'");
  EXPECT_EQ(error(""), "test:1:1: expected an expression, found the end of the text");
}

TEST(Attr, VisitorsSeeWhatIsPresent) {
  Attr refs = std::vector<TensorRef>{{1}, {TensorRef::kAbsent}, {2}};
  for_each_tensor(refs, [](TensorRef& ref) { ref.id += 10; });
  EXPECT_EQ(text_of(refs), "[%t11, none, %t12]");
  std::vector<int> ids;
  for_each_tensor(std::as_const(refs), [&](TensorRef ref) { ids.push_back(ref.id); });
  EXPECT_EQ(ids, (std::vector<int>{11, 12}));
  for_each_tensor(Attr(TensorRef{}), [](TensorRef) { FAIL() << "an absent tensor"; });

  Attr sizes = std::vector<Expr>{expr("s0"), 4};
  for_each_expr(sizes, [](Expr& e) { e = e + 1; });
  EXPECT_EQ(text_of(sizes), "[s0 + 1, 5]");
  std::string seen;
  for_each_expr(std::as_const(sizes), [&](const Expr& e) { seen += e.str() + ";"; });
  EXPECT_EQ(seen, "s0 + 1;5;");
}

}  // namespace
}  // namespace npugraph
