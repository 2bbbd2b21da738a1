// SPDX-License-Identifier: Apache-2.0
#include "lower/lower.h"

#include "lower/lower_testing.h"

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
}  // namespace npugraph::lower
