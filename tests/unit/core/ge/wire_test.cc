// SPDX-License-Identifier: Apache-2.0
#include "ge/wire.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ge/model_builder.h"

namespace npugraph::ge {
namespace {

Model parse(const std::string& bytes) {
  auto owner = std::make_shared<const std::string>(bytes);
  return parse_model(std::as_bytes(std::span(*owner)), owner, "test.air");
}

std::string parse_refusal(const std::string& bytes) {
  try {
    parse(bytes);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Wire, OperatorsKeepTheirFields) {
  const Model model =
      model_of({data("x", 3, {-1, 4}, WireType::kBf16),
                Op("Relu", "y", {"x:0", "", "x:-1"}).attr("axes", std::vector<int64_t>{1, -2}).attr("flag", true)});
  ASSERT_EQ(model.graphs.size(), 1u);
  const std::vector<OpDef>& ops = model.graphs[0].ops;
  ASSERT_EQ(ops.size(), 2u);
  EXPECT_EQ(*find_attr<int64_t>(ops[0].attrs, "index"), 3);
  EXPECT_EQ(ops[0].output_descs[0].dtype, WireType::kBf16);
  EXPECT_EQ(ops[0].output_descs[0].dims, (std::vector<int64_t>{-1, 4}));
  ASSERT_EQ(ops[1].inputs.size(), 3u);
  EXPECT_EQ(ops[1].inputs[0].producer, "x");
  EXPECT_TRUE(ops[1].inputs[1].is_absent());
  EXPECT_TRUE(ops[1].inputs[2].is_control());
  EXPECT_EQ(find_attr<ListValue>(ops[1].attrs, "axes")->i, (std::vector<int64_t>{1, -2}));
  EXPECT_TRUE(*find_attr<bool>(ops[1].attrs, "flag"));
  EXPECT_EQ(find_attr(ops[1].attrs, "gone"), nullptr);
}

// Writers may pack repeated numbers or not.
TEST(Wire, RepeatedNumbersNeedNotBePacked) {
  Message shape;
  shape.integer(1, 2).integer(1, 3);
  const Message desc = Message().text(1, "y").integer(2, 1).message(3, shape);
  const Model model = model_of({Op("Data", "x").output(desc)});
  EXPECT_EQ(model.graphs[0].ops[0].output_descs[0].dims, (std::vector<int64_t>{2, 3}));
}

// Fields that are not known, or have another wire type than in ge.proto, are skipped.
TEST(Wire, UnknownFieldsAreSkipped) {
  const std::string odd = Message().integer(1, 7).text(99, "new").text(3, "1.0").bytes();
  const Model model = parse(odd);
  EXPECT_EQ(model.name, "");
  EXPECT_EQ(model.custom_version, "1.0");
}

TEST(Wire, TheLastAttributeOfANameCounts) {
  const Model model = model_of({Op("Relu", "y").attr("a", int64_t{1}).attr("b", int64_t{2}).attr("a", int64_t{3})});
  EXPECT_EQ(model.graphs[0].ops[0].attrs.size(), 2u);
  EXPECT_EQ(*find_attr<int64_t>(model.graphs[0].ops[0].attrs, "a"), 3);
}

TEST(Wire, DamagedBytesAreErrorsThatNameTheMessage) {
  const std::string good = serialise({data("x", 0, {4}), Op("Relu", "y", {"x:0"})});
  EXPECT_NE(parse_refusal(good.substr(0, good.size() - 3)).find("test.air is no model of GE: ModelDef"),
            std::string::npos);
  EXPECT_NE(parse_refusal(serialise({Op("Relu", "y", {"x:one"})})).find("an input is 'producer:index', got 'x:one'"),
            std::string::npos);
}

// Nesting cannot exhaust the stack.
TEST(Wire, DeepNestingIsAnError) {
  Message tensor = Message().text(2, "");
  for (int i = 0; i < 1000; ++i) {
    const Message attr =
        Message().message(11, Message().message(5, Message().text(1, "a").message(2, Message().message(12, tensor))));
    tensor = Message().message(1, Message().message(5, Message().text(1, "a").message(2, attr)));
  }
  const std::string bytes = serialise({Op("Relu", "y").attr_message("deep", Message().message(12, tensor))});
  EXPECT_NE(parse_refusal(bytes).find("messages are nested more than 32 deep"), std::string::npos)
      << parse_refusal(bytes);
}

// Any change of one byte is an error or another model, and never a crash.
TEST(Wire, ChangedBytesAreRead) {
  const std::string good = serialise({data("x", 0, {-1, 4}), int_list("shape", {2, 2}),
                                      Op("Reshape", "y", {"x:0", "shape:0"}), Op("NetOutput", "out", {"y:0"})});
  for (size_t i = 0; i < good.size(); ++i) {
    for (const int flip : {1, 0x80, 0xff}) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      try {
        parse(bytes);
      } catch (const UserError&) {
      }
    }
  }
}

}  // namespace
}  // namespace npugraph::ge
