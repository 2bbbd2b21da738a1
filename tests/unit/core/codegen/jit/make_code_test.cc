// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/make_code.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <llvm/IR/IRBuilder.h>

#include "base/error.h"
#include "codegen/jit/builds.h"
#include "codegen/jit/code_cache.h"
#include "temporary_folder.h"

namespace npugraph::codegen {

namespace {

class MakeCodeTest : public testing::Test {
 protected:
  // Makes code for an int f() that returns `value`, with the cache in directory_, and returns its result.
  int run(const std::string& text, int value) {
    const target::Target& target = target::host_target();
    const ObjectCache objects({.directory = directory_, .build = "build"});
    const auto emit = [&] {
      IrModule ir = make_ir_module("sample", target);
      llvm::IRBuilder<> b(*ir.context);
      auto* f = add_function(*ir.module, target, "f", llvm::FunctionType::get(b.getInt32Ty(), false));
      b.SetInsertPoint(llvm::BasicBlock::Create(*ir.context, "", f));
      b.CreateRet(b.getInt32(static_cast<uint32_t>(value)));
      return ir;
    };
    return make_code(target, text, emit, objects)->function<int()>("f")();
  }

  TemporaryFolder folder_;
  std::string directory_ = folder_.path();
};

TEST_F(MakeCodeTest, MakesWhatIsNotOnDiskAndLoadsTheRest) {
  const BuildCount count;
  EXPECT_EQ(run("a", 1), 1);
  EXPECT_EQ(run("b", 2), 2);
  EXPECT_EQ(count.builds(), 2);
  EXPECT_EQ(count.loads(), 0);
  EXPECT_GT(count.nanoseconds(), 0);
  EXPECT_EQ(run("a", 3), 1);  // the code is found by its text
  EXPECT_EQ(run("b", 4), 2);
  EXPECT_EQ(count.builds(), 2);
  EXPECT_EQ(count.loads(), 2);
}

TEST_F(MakeCodeTest, AnObjectThatCannotBeLoadedIsMadeAgain) {
  const ObjectCache objects({.directory = directory_, .build = "build"});
  objects.store(target::host_target(), "a", {'x', 'y'});
  const BuildCount count;
  EXPECT_EQ(run("a", 1), 1);
  EXPECT_EQ(run("a", 1), 1);
  EXPECT_EQ(count.builds(), 1);
  EXPECT_EQ(count.loads(), 1);
}

TEST_F(MakeCodeTest, TheDiskIsLeftAloneWhereTheRulesSaySo) {
  const BuildCount count;
  {
    const WithBuildRules rules({.reads_disk = false});
    EXPECT_EQ(run("a", 1), 1);
    EXPECT_EQ(run("a", 2), 2);
    {
      const WithBuildRules inner({});
      EXPECT_EQ(run("a", 3), 3);
    }
    EXPECT_EQ(run("a", 4), 4);
  }
  EXPECT_EQ(run("a", 5), 3);
  EXPECT_EQ(count.builds(), 4);
  EXPECT_EQ(count.loads(), 1);
}

TEST_F(MakeCodeTest, OfThoseWhoWantTheSameAtOnceOneMakesIt) {
  std::atomic<int64_t> builds = 0, loads = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        const WithBuildRules rules({.one_builder = true});
        const BuildCount count;
        EXPECT_EQ(run("a", 1), 1);
        builds += count.builds();
        loads += count.loads();
      });
    }
  }
  EXPECT_EQ(builds, 1);
  EXPECT_EQ(loads, 7);
}

TEST(CodeCache, KeepsWhatIsUsedAndDropsTheRestWhenAsked) {
  static auto* cache = new CodeCache<int>;
  int made = 0;
  const auto get = [&](const std::string& text) {
    return cache->get(target::host_target(), text, [&] { return ++made; });
  };
  const auto used = get("used");
  get("unused");
  EXPECT_EQ(get("used"), used);
  EXPECT_EQ(*get("unused"), 2);
  EXPECT_EQ(made, 2);
  drop_unused_code();
  EXPECT_EQ(get("used"), used);
  EXPECT_EQ(*get("unused"), 3);
}

}  // namespace

}  // namespace npugraph::codegen
