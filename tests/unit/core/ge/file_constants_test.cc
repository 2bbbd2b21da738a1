// SPDX-License-Identifier: Apache-2.0
#include "ge/file_constants.h"

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
