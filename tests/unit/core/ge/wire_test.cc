// SPDX-License-Identifier: Apache-2.0
#include "ge/wire.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "ge/model_builder.h"
#include "temporary_folder.h"

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

namespace {

class FileConstants : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  std::string refusal(const Op& op) const {
    write("model.air", serialise({op}));
    try {
      read_model((folder_ / "model.air").string());
      return "";
    } catch (const UserError& error) {
      return error.what();
    }
  }

  TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
};

Op file_constant(const std::string& path) {
  return Op("FileConstant", "w")
      .attr("shape", std::vector<int64_t>{2, 3})
      .attr("dtype", int64_t{4})
      .attr("file_path", path.c_str());
}

// The bytes stay where they are when the model is moved.
TEST_F(FileConstants, AreFilesBesideTheModel) {
  write("weight", "abcdef");
  write("model.air", serialise({file_constant("weight"), Op("NetOutput", "out", {"w:0"})}));
  const Model model = read_model((folder_ / "model.air").string());
  const OpDef& op = model.graphs.front().ops.front();
  EXPECT_EQ(op.type, "Const");
  const auto* value = find_attr<TensorValue>(op.attrs, "value");
  ASSERT_NE(value, nullptr);
  EXPECT_EQ(value->data, "abcdef");
  EXPECT_EQ(value->desc.dims, std::vector<int64_t>({2, 3}));
  EXPECT_EQ(value->desc.dtype, WireType::kUint8);
}

TEST_F(FileConstants, ErrorsNameTheOperatorAndTheFile) {
  const std::string of_operator = "operator 'w' of type FileConstant: ";
  EXPECT_EQ(refusal(file_constant("gone")),
            of_operator + "cannot read " + (folder_ / "gone").string() + ": No such file or directory");
  EXPECT_EQ(refusal(file_constant(".")),
            of_operator + "cannot read " + (folder_ / ".").string() + ": it is not a regular file");
  write("weight", "abcdef");
  EXPECT_EQ(refusal(Op("FileConstant", "w")),
            of_operator + "it has no attribute 'file_path' of the kind that Ascend IR says");
  EXPECT_EQ(refusal(Op("FileConstant", "w").attr("file_path", "weight").attr("dtype", int64_t{99})),
            of_operator + "its attribute 'dtype' is no type of an element: 99");
}

}  // namespace

}  // namespace npugraph::ge
