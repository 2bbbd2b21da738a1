// SPDX-License-Identifier: Apache-2.0
#include "runtime/task_makers.h"

#include <string>

#include <gtest/gtest.h>

#include "base/error.h"

namespace npugraph::runtime {
namespace {

using program::TaskKind;

std::string refusal(const TaskMakers& makers, const program::Task& task) {
  try {
    makers.make({}, task);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(TaskMakers, EachKindHasItsMaker) {
  static int kernels = 0, loops = 0;
  TaskMakers makers;
  makers.add(TaskKind::kKernel, [](const auto&, const auto&) { return ++kernels, ng_task{}; })
      .add(TaskKind::kLoop, [](const auto&, const auto&) { return ++loops, ng_task{}; });
  makers.make({}, {.kind = TaskKind::kLoop});
  EXPECT_EQ(kernels, 0);
  EXPECT_EQ(loops, 1);
  EXPECT_THROW(makers.add(TaskKind::kLoop, {}), InternalError);
}

TEST(TaskMakers, AKindWithoutMakerIsNamed) {
  const TaskMakers none;
  EXPECT_EQ(refusal(none, {.kind = TaskKind::kAten, .name = "aten.mm.out", .source = "model.py:3"}),
            "this process has no torch and cannot run aten.mm.out (model.py:3)");
  EXPECT_EQ(refusal(none, {.kind = TaskKind::kLoop, .name = "loop.add"}),
            "this process cannot run loop.add: it makes no loop tasks");
}

}  // namespace
}  // namespace npugraph::runtime
