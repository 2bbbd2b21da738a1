// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul/tuned.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "codegen/matmul/plan.h"
#include "matmul_testing.h"

namespace npugraph::codegen {
namespace {

const MatmulBlocks kBlocks{
    .form = Form::kPackB, .tile_rows = 7, .block_rows = 12, .block_columns = 48, .block_steps = 9};
const MatmulBlocks kOthers{.form = Form::kPackA, .tile_rows = 1, .block_rows = 2, .block_columns = 3, .block_steps = 4};

class TunedFile : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  TunedProducts open(const std::string& processor = "processor p threads 2") const { return {path_, processor}; }
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  std::string text() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  std::string folder_ = cat(testing::TempDir(), "tuned_", ::getpid());
  std::string path_ = folder_ + "/below/products.txt";
};

TEST_F(TunedFile, KeepsChoicesForTheNextProcess) {
  open().keep("m 1 n 2", kBlocks);
  open().keep("m 3 n 4", kOthers);
  EXPECT_EQ(text(), "npugraph tuned products 1\nprocessor p threads 2\nm 1 n 2 = 3 7 12 48 9\nm 3 n 4 = 2 1 2 3 4\n");
  const TunedProducts later = open();
  EXPECT_TRUE(later.is_in_use());
  EXPECT_EQ(later.find("m 1 n 2"), kBlocks);
  EXPECT_EQ(later.find("m 3 n 4"), kOthers);
  EXPECT_EQ(later.find("m 5 n 6"), std::nullopt);
}

TEST_F(TunedFile, IsForOneKindOfProcessor) {
  open().keep("m 1 n 2", kBlocks);
  EXPECT_FALSE(open("processor q threads 2").is_in_use());
  EXPECT_FALSE(open("processor p threads 1").is_in_use());
}

TEST_F(TunedFile, LeavesOutLinesThatAreNoChoices) {
  std::filesystem::create_directories(folder_ + "/below");
  write(
      "npugraph tuned products 1\nprocessor p threads 2\nm 1 = 3 7 12 48 9\nm 2 = 4 7 12 48 9\nm 3 = 3 7 12 48\n"
      "m 4 = 3 7 -1 48 9\nm 5\nm 6 = 3 7 12 48 9 1\nm 7 = 3 7 99999999999999999999 48 9\n");
  const TunedProducts products = open();
  EXPECT_EQ(products.find("m 1"), kBlocks);
  for (const char* key : {"m 2", "m 3", "m 4", "m 5", "m 6", "m 7"}) EXPECT_EQ(products.find(key), std::nullopt) << key;
  write("something else\n");
  EXPECT_FALSE(open().is_in_use());
}

TEST_F(TunedFile, MayBeImpossibleToWrite) {
  std::ofstream(folder_ + "/below") << "a file";
  TunedProducts products = open();
  products.keep("m 1", kBlocks);
  EXPECT_EQ(products.find("m 1"), kBlocks);
}

TEST(TunedBlocks, AreReadAsTheyWereWritten) {
  EXPECT_EQ(parse_blocks(print(kBlocks)), kBlocks);
  EXPECT_EQ(parse_blocks(""), std::nullopt);
}

MatmulPlan product_of(int64_t m, int64_t n, int64_t k) {
  MatmulPlan plan;
  plan.m = m, plan.n = n, plan.k = k;
  plan.a = {k * 4, 4, {}, DType::kF32};
  plan.b = {4, n * 4, {}, DType::kF32};
  return plan;
}

// The process-wide choices are as they were behind each of these tests.
TEST(TunedPlans, TakeAChoiceThatAddsInTheSameOrder) {
  TunedProducts& products = TunedProducts::instance();
  const target::Target& target = target::host_target();
  MatmulPlan usual = product_of(60, 50, 1100);
  const std::string key = key_of(usual);
  products.start();
  ASSERT_TRUE(complete(usual, target, {}));
  const std::vector<PlannedProduct> noted = products.stop();
  EXPECT_FALSE(usual.tuned);
  ASSERT_EQ(noted.size(), 1u);
  EXPECT_EQ(noted[0].key, key);
  EXPECT_EQ(noted[0].blocks[0], usual.blocks());
  ASSERT_GT(noted[0].blocks.size(), 1u);
  for (const MatmulBlocks& blocks : noted[0].blocks) {
    products.choose(key, blocks);
    MatmulPlan plan = product_of(60, 50, 1100);
    ASSERT_TRUE(complete(plan, target, {}));
    EXPECT_TRUE(plan.tuned);
    EXPECT_EQ(plan.blocks(), blocks);
    EXPECT_EQ(plan.workspace(), usual.workspace());
  }
  products.choose(key, kOthers);
  MatmulPlan plan = product_of(60, 50, 1100);
  ASSERT_TRUE(complete(plan, target, {}));
  EXPECT_FALSE(plan.tuned);
  EXPECT_EQ(plan.blocks(), usual.blocks());
  products.choose(key, {});
}

}  // namespace
}  // namespace npugraph::codegen
