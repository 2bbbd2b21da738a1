// SPDX-License-Identifier: Apache-2.0
#include "lower/terms/copied_results.h"

#include "lower/lower_testing.h"

namespace npugraph::lower {
namespace {

// Returns "copied " or "made " for each operand that a task writes.
std::string writes_of(const std::string& body) {
  const program::Program program = lowered(body, {.generate = true});
  std::string found;
  for (const program::Task& task : program.tasks) {
    for (const program::Operand& operand : task.operands) {
      if (operand.access != program::Access::kRead) found += operand.copied ? "copied " : "made ";
    }
  }
  return found;
}

constexpr const char* kMatrices = R"(
  input %x : f32[32, 64] user "x"
  input %y : f32[32, 64] user "y"
)";

TEST(Moved, ACopyOfAnInputBesideASum) {
  EXPECT_EQ(writes_of(std::string(kMatrices) + R"(
    %a : f32[32, 64] = aten.mul.Tensor(%x, %y)
    %b : f32[32, 64] = aten.neg(%a)
    %c : f32[32, 64] = aten.clone(%x)
    return %b, %c
  )"),
            "made copied ");
}

TEST(Moved, WhatIsComputedFirstIsNotCopied) {
  EXPECT_EQ(writes_of(std::string(kMatrices) + R"(
    %a : f32[32, 64] = aten.mul.Tensor(%x, %y)
    %b : f32[32, 64] = aten.clone(%a)
    return %b
  )"),
            "made ");
}

TEST(Moved, PartsThatAreInMemoryMakeAConcatenationACopy) {
  EXPECT_EQ(writes_of(std::string(kMatrices) + R"(
    %a : f32[32, 64] = aten.mul.Tensor(%x, %y)
    %b : f32[32, 128] = aten.cat([%a, %y], 1)
    %c : f32[32, 128] = aten.neg(%b)
    return %b, %c
  )"),
            "copied made ");
}

}  // namespace
}  // namespace npugraph::lower
