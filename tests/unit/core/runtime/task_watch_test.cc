// SPDX-License-Identifier: Apache-2.0
#include "runtime/watch/task_watch.h"

#include <gtest/gtest.h>

#include "runtime/runtime_test_util.h"

namespace npugraph::runtime {
namespace {

Floats floats_in(const ng_buffer& window) {
  const auto* data = static_cast<const float*>(window.data);
  return {data, data + window.sizes[0]};
}

TEST(TaskWatch, SeesOperandsBeforeAndAfterEachTask) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain);
  Argument x({1, 2});
  std::vector<std::string> seen;
  std::vector<Floats> written;
  set_task_watch([&](const WatchedTask& watched) {
    ASSERT_EQ(watched.operands.size(), 2u);
    EXPECT_EQ(watched.artifact, "chain");
    EXPECT_EQ(watched.operands[0].operand.access, program::Access::kRead);
    seen.push_back(std::to_string(watched.task) + (watched.done ? " done" : ""));
    if (watched.done) written.push_back(floats_in(watched.operands[1].window));
    EXPECT_EQ(watched.inputs.size(), seen.size() == 1 ? 1u : 0u);
    if (seen.size() == 1) {
      EXPECT_EQ(watched.inputs[0].sizes, std::vector<int64_t>{2});
      EXPECT_EQ(watched.inputs[0].data, x.bound().data);
      EXPECT_EQ(watched.symbols.at(0).value.as_int(), 2);
    }
    if (watched.task == 1) {
      EXPECT_EQ(floats_in(watched.operands[0].window), Floats({2, 4}));
    }
  });
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats({3, 5}));
  set_task_watch({});
  EXPECT_EQ(Results(*executable, host, {x.bound()}).values(0), Floats({3, 5}));
  EXPECT_EQ(seen, (std::vector<std::string>{"0", "0 done", "1", "1 done"}));
  EXPECT_EQ(written, (std::vector<Floats>{{2, 4}, {3, 5}}));
}

TEST(TaskWatch, OneTakesThePlaceOfTheOther) {
  TestHost host;
  define_chain(host);
  const auto executable = make(host, kChain);
  Argument x({1});
  int first = 0;
  int second = 0;
  set_task_watch([&](const WatchedTask&) { ++first; });
  set_task_watch([&](const WatchedTask&) { ++second; });
  EXPECT_NE(task_watch(), nullptr);
  const Results results(*executable, host, {x.bound()});
  set_task_watch({});
  EXPECT_EQ(task_watch(), nullptr);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 4);
}

}  // namespace
}  // namespace npugraph::runtime
