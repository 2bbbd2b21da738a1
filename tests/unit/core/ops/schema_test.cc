// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/table.h"

namespace npugraph::ops {
namespace {

using ir::Trait;

Expr real(double value) { return Expr::constant(Scalar::of_float(value)); }

TEST(Schema, NamesArgumentsAndReturns) {
  const auto schema = parse_schema("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
  EXPECT_EQ(schema.name, "aten.add.Tensor");
  ASSERT_EQ(schema.args.size(), 3u);
  EXPECT_EQ(schema.args[0].name, "self");
  EXPECT_EQ(schema.args[0].type, "Tensor");
  EXPECT_FALSE(schema.args[1].keyword_only);
  EXPECT_TRUE(schema.args[2].keyword_only);
  EXPECT_EQ(schema.args[2].default_value, Attr(Expr(1)));
  ASSERT_EQ(schema.returns.size(), 1u);
  EXPECT_EQ(schema.returns[0].type, "Tensor");
}

TEST(Schema, TheDefaultOverloadIsNotWritten) {
  EXPECT_EQ(parse_schema("my::op(Tensor x) -> ()").name, "my.op");
  EXPECT_EQ(parse_schema("my::op.default(Tensor x) -> ()").name, "my.op");
  EXPECT_TRUE(parse_schema("my::op() -> ()").returns.empty());
}

TEST(Schema, AliasesStandBeforeOrBehindTheBrackets) {
  const auto schema = parse_schema(
      "my::op(Tensor(a!) x, Tensor(b!)[] y, Tensor(c -> *) z, Tensor(d)? w, Tensor[](e) v) -> (Tensor(a!) out, "
      "Tensor(c)[])");
  EXPECT_TRUE(schema.args[0].is_write);
  EXPECT_EQ(schema.args[0].alias, "a");
  EXPECT_EQ(schema.args[1].type, "Tensor[]");
  EXPECT_TRUE(schema.args[1].is_write);
  EXPECT_EQ(schema.args[2].alias, "c");
  EXPECT_FALSE(schema.args[2].is_write);
  EXPECT_EQ(schema.args[3].type, "Tensor?");
  EXPECT_EQ(schema.args[4].alias, "e");
  EXPECT_TRUE(schema.returns[0].is_write);
  EXPECT_EQ(schema.returns[1].type, "Tensor[]");
  EXPECT_EQ(schema.returns[1].alias, "c");
}

TEST(Schema, DefaultsHaveTheKindOfTheirType) {
  const auto schema = parse_schema(
      "my::op(int a=-1, float b=2, float c=1.0000000000000001e-05, bool d=True, str e=\"x\\n\", Scalar f=0.5, int? "
      "g=None, "
      "int[2] h=1, int[] i=[0, -2], SymInt[1]? j=None, Tensor[] k=[], ScalarType l=6, MemoryFormat "
      "m=contiguous_format, "
      "MemoryFormat n=2, Layout o=strided, float p=inf, bool[2] q=[True, False], str r='y', Device? s=None) -> Tensor");
  const auto value = [&](size_t i) { return schema.args[i].default_value; };
  EXPECT_EQ(value(0), Attr(Expr(-1)));
  EXPECT_EQ(value(1), Attr(real(2.0)));
  EXPECT_EQ(value(2), Attr(real(1e-5)));
  EXPECT_EQ(value(3), Attr(Expr::constant(Scalar::of_bool(true))));
  EXPECT_EQ(value(4), Attr(std::string("x\n")));
  EXPECT_EQ(value(5), Attr(real(0.5)));
  EXPECT_EQ(value(6), Attr(None{}));
  EXPECT_EQ(value(7), Attr(std::vector<Expr>{1, 1}));
  EXPECT_EQ(value(8), Attr(std::vector<Expr>{0, -2}));
  EXPECT_EQ(value(9), Attr(None{}));
  EXPECT_EQ(value(10), Attr(std::vector<TensorRef>()));
  EXPECT_EQ(value(11), Attr(DType::kF32));
  EXPECT_EQ(value(12), Attr(MemoryFormat::kContiguous));
  EXPECT_EQ(value(13), Attr(MemoryFormat::kChannelsLast));
  EXPECT_EQ(value(14), Attr(Layout::kStrided));
  EXPECT_EQ(value(15), Attr(real(HUGE_VAL)));
  EXPECT_EQ(value(16),
            Attr(std::vector<Expr>{Expr::constant(Scalar::of_bool(true)), Expr::constant(Scalar::of_bool(false))}));
  EXPECT_EQ(value(17), Attr(std::string("y")));
}

TEST(Schema, TypesOfOtherLanguagesAreKept) {
  const auto schema = parse_schema(
      "my::op(Dict(str, Tensor) a, (int, int) b, Future(t) c, __torch__.torch.classes.c.D d) -> Dict(str, Tensor)");
  EXPECT_EQ(schema.args[0].type, "Dict(str, Tensor)");
  EXPECT_EQ(schema.args[1].type, "(int, int)");
  EXPECT_EQ(schema.args[3].type, "__torch__.torch.classes.c.D");
}

TEST(Schema, MalformedTextIsRefusedWithThePlace) {
  for (const char* text :
       {"", "add", "aten::add", "aten::add(", "aten::add()", "aten::add(Tensor) -> Tensor", "a::b(Tensor x",
        "a::b(Tensor x) ->", "a::b(Tensor x) -> Tensor extra", "a::b(int x=) -> ()", "a::b(Tensor(a x) -> ()",
        "a::b(*, *, int x) -> ()", "a::b(int[ x) -> ()", "a::b(str x=\"y) -> ()", "a::b(int x=1.2.3) -> ()"}) {
    EXPECT_THROW(parse_schema(text), UserError) << text;
  }
  try {
    parse_schema("aten::add(Tensor self) - Tensor");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "operator schema, at column 24: expected '->' in \"aten::add(Tensor self) - Tensor\"");
  }
}

TEST(Schema, TraitsFollowFromAliases) {
  const auto traits = [](std::string_view text) { return traits_of(parse_schema(text)); };
  EXPECT_EQ(traits("a::b(Tensor x) -> Tensor"), 0u);
  EXPECT_EQ(traits("a::b(Tensor(a!) x) -> Tensor(a!)"), static_cast<ir::Traits>(Trait::kMutates));
  EXPECT_EQ(traits("a::b(Tensor x, Tensor(a!)[] y) -> ()"), static_cast<ir::Traits>(Trait::kMutates));
  EXPECT_EQ(traits("a::b(Tensor(a) x) -> Tensor(a)"), static_cast<ir::Traits>(Trait::kView));
  EXPECT_EQ(traits("a::b(Tensor(a -> *) x, int n) -> Tensor(a)[]"), static_cast<ir::Traits>(Trait::kView));
  EXPECT_EQ(traits("a::b(Tensor x, Tensor(a) y) -> Tensor(a)"), 0u);
  EXPECT_EQ(traits("a::b(Generator(a!) g) -> Tensor"), 0u);
  EXPECT_EQ(traits("a::b(int n) -> Tensor(a)"), 0u);
}

}  // namespace
}  // namespace npugraph::ops
