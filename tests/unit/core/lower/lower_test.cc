// SPDX-License-Identifier: Apache-2.0
#include "lower/lower.h"

#include <gtest/gtest.h>

#include "lower/clusters/decisions.h"
#include "lower/lower_testing.h"
#include "lower/terms/terms.h"

namespace npugraph::lower {

namespace {

TEST(Lower, ASymbolWithoutItsNodeIsForgotten) {
  const program::Program program = lowered(R"(
    symbol u0 : int [0, 4]
    symbol u1 : int [0, 4]
    input %x : f32[4] user "x"
    %n : i64[u1, 1]{1, u1} = aten.nonzero(%x) defines(u1 = result 0 dim 0)
    %o : f32[4] = aten.exp(%x)
    return %o, %n)");
  ASSERT_EQ(program.symbols.size(), 1u);
  EXPECT_EQ(program.symbols[0].name, "u1");
}

// The kernel of the first task, and the number of its arguments.
std::string kernel_of(const std::string& node) {
  const program::Program program = lowered(R"(
    input %x : f32[4] static "x"
    input %y : f32[4] user "y"
    input %i : i64[4] user "i"
    %o : )" + node + "\n return %o");
  return program.tasks.at(0).name + " " + std::to_string(program.tasks.at(0).args.size());
}

TEST(Lower, KernelsComputeWhatTheHostComputes) {
  EXPECT_EQ(kernel_of("f32[4] = aten.add.Tensor(%x, %y)"), "kernel.binary_add 2");
  EXPECT_EQ(kernel_of("f32[4] = aten.add_.Tensor(%x, 2)"), "kernel.binary_add 2");
  EXPECT_EQ(kernel_of("f32[4] = aten.sub.Tensor(%x, %y, alpha=2)"), "aten.sub.Tensor 3") << "it rounds once";
  EXPECT_EQ(kernel_of("bool[4] = aten.lt.Tensor(%x, %y)"), "kernel.binary_lt 2");
  EXPECT_EQ(kernel_of("f32[4] = aten.lt_.Tensor(%x, %y)"), "aten.lt_.Tensor 2") << "its result is no bool";
  EXPECT_EQ(kernel_of("f32[4] = aten.sqrt_(%x)"), "kernel.unary_sqrt 1");
  EXPECT_EQ(kernel_of("f32[4] = aten.sqrt(%i)"), "aten.sqrt 1");
  EXPECT_EQ(kernel_of("f32[4] = aten.mul.Tensor(%i, %x)"), "kernel.binary_mul 2");
}

// The names of the buffers that the last task may write over.
std::string may_write_over(const std::string& body) {
  const program::Program program =
      lowered("input %x : f32[2, 2] user \"x\"\ninput %y : f32[2, 2] static \"y\"\n" + body);
  const program::Task& task = program.tasks.back();
  std::string names;
  for (const program::Share& share : task.may_share) {
    EXPECT_EQ(share.written, static_cast<int32_t>(task.operands.size()) - 1);
    names += (names.empty() ? "" : " ") + program.buffers[task.operands[share.read].buffer].name;
  }
  return names;
}

TEST(Lower, ElementwiseKernelsMayWriteOverTheirOperands) {
  EXPECT_EQ(may_write_over("%o : f32[2, 2] = aten.maximum(%x, %y)  return %o"), "x y");
  EXPECT_EQ(may_write_over("%o : f32[2, 2] = aten.neg(%x)  return %o"), "x");
  EXPECT_EQ(may_write_over("%o : f32[2, 2] = aten.add_.Tensor(%y, %x)  return %o"), "") << "it has its place";
  EXPECT_EQ(may_write_over("%o : f32[2, 2] = aten.mm(%x, %y)  return %o"), "") << "it reads rows again";
  EXPECT_EQ(may_write_over("%o : f32[2, 2] = aten.exp(%x)  return %o"), "") << "nobody knows what the host does";
}

}  // namespace

// The tasks that nodes become, and the reasons of tasks that are not generated code.

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
