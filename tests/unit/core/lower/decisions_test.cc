// SPDX-License-Identifier: Apache-2.0
// The tasks that nodes become, and the reasons of tasks that are not generated code.
#include "lower/clusters/decisions.h"

#include <gtest/gtest.h>

#include "lower/lower_testing.h"

namespace npugraph::lower {
namespace {

// Node 0 and 1 are one cluster, 2 has no generated code, 3 and 4 are another cluster.
constexpr const char* kBody = R"(
    input %x : f32[8, 16] user "x"
    %a : f32[8, 16] = aten.exp(%x)
    %b : f32[8, 16] = aten.gelu(%a)
    %i : i64[8, 2] = aten.nonzero_static(%x, size=8)
    %c : f32[8, 16] = aten.neg(%x)
    %d : f32[8, 16] = aten.abs(%c)
    return %b, %i, %d)";

// "name: reason" of each task.
std::string decided(const LowerOptions& options) {
  std::string lines;
  for (const program::Task& task : lowered(kBody, options).tasks) lines += task.name + ": " + task.reason + "\n";
  return lines;
}

TEST(Decisions, WithoutGeneratedCodeEveryNodeIsATask) {
  EXPECT_EQ(decided({}),
            "aten.exp.out: generate_code is off\n"
            "aten.gelu.out: generate_code is off\n"
            "aten.nonzero_static: generate_code is off, and no kernel that writes into planned memory\n"
            "kernel.unary_neg: generate_code is off\n"
            "kernel.unary_abs: generate_code is off\n");
}

TEST(Decisions, ClustersAreGeneratedCode) {
  constexpr const char* kNone =
      "aten.nonzero_static: no generated code for this operator with these operands, and no kernel that writes into "
      "planned memory\n";
  EXPECT_EQ(decided({.generate = true}), std::string("loop.exp.gelu: \n") + kNone + "loop.neg.abs: \n");
}

// A product with few multiplications is done before threads have started. Large weights are read faster by all threads.
TEST(Decisions, SmallProductsAreKernels) {
  constexpr const char* kProducts = R"(
    input %x : f32[4, 64] user "x"
    input %w : f32[64, 64] user "w"
    input %y : f32[1, 576] user "y"
    input %v : f32[576, 192] user "v"
    %a : f32[4, 64] = aten.mm(%x, %w)
    %b : f32[1, 192] = aten.mm(%y, %v)
    return %a, %b)";
  const program::Program made = lowered(kProducts, {.generate = true});
  ASSERT_EQ(made.tasks.size(), 2U);
  EXPECT_EQ(made.tasks[0].name, "kernel.mm_f32");
  EXPECT_EQ(made.tasks[0].reason, "small enough for a precompiled kernel, which needs no code of its own");
  EXPECT_EQ(made.tasks[1].name, "matmul.mm");
  EXPECT_EQ(made.tasks[1].reason, "");
}

}  // namespace
}  // namespace npugraph::lower
