// SPDX-License-Identifier: Apache-2.0
#include "lower/generated/merge_products.h"

#include <algorithm>

#include "base/error.h"
#include "loop/text.h"
#include "lower/lower_testing.h"

namespace npugraph::lower {
namespace {

constexpr const char* kProducts = R"(
    input %x : f32[128, 256] user "x"
    input %z : f32[128, 256] user "z"
    input %w : f32[256, 512] user "w"
    input %v : f32[256, 64] user "v"
    input %b : f32[512] user "b"
    input %o : f32[256, 256] user "o"
    input %d : f32[512, 256] user "d"
    )";

program::Program program_of(const std::string& body) {
  return lowered(std::string(kProducts) + body, {.generate = true});
}

std::string tasks(const std::string& body) { return tasks_of(program_of(body)); }

void expect_only_share(const program::Task& task, program::Share share) {
  ASSERT_EQ(task.may_share.size(), 1u);
  EXPECT_EQ(task.may_share[0].written, share.written);
  EXPECT_EQ(task.may_share[0].read, share.read);
}

TEST(MergeProducts, OfOneFirstFactorAreOneTask) {
  const program::Program program = program_of(R"(
    %p : f32[128, 512] = aten.addmm(%b, %x, %w)
    %q : f32[128, 64] = aten.mm(%x, %v)
    %r : f32[128, 64] = aten.relu(%q)
    return %p, %r)");
  ASSERT_EQ(tasks_of(program), "matmul.addmm.mm.relu");
  const program::Task& task = program.tasks[0];
  // Operands: x; w, b, p; v, r.
  ASSERT_EQ(task.operands.size(), 6u);
  EXPECT_EQ(task.operands[3].access, program::Access::kWrite);
  EXPECT_EQ(task.operands[5].access, program::Access::kWrite);
  const auto kernels = loop::parse_all(std::get<std::string>(task.args[0]), "test");
  ASSERT_EQ(kernels.size(), 2u);
  // Each kernel also has a buffer for its sums.
  EXPECT_EQ(kernels[0].buffers.size(), 3u);
  EXPECT_EQ(kernels[1].buffers.size(), 2u);
}

TEST(MergeProducts, SymbolicSizesStayBesideTheirKernels) {
  const program::Program program = lowered(R"(
    symbol s0 : int
    input %x : f32[s0, 256] user "x"
    input %w : f32[256, 512] user "w"
    %p : f32[s0, 512] = aten.mm(%x, %w)
    %q : f32[s0, 512] = aten.mm(%x, %w)
    %r : f32[s0, 512] = aten.relu(%q)
    return %p, %r)",
                                           {.generate = true});
  ASSERT_EQ(tasks_of(program), "matmul.mm.mm.relu");
  size_t scalars = 0;
  for (const loop::Kernel& kernel : loop::parse_all(std::get<std::string>(program.tasks[0].args[0]), "test"))
    scalars += kernel.scalars.size();
  EXPECT_EQ(program.tasks[0].scalars.size(), scalars);
  EXPECT_EQ(program.tasks[0].args.size(), 1 + scalars);
}

TEST(MergeProducts, NotOfDifferentFactors) {
  EXPECT_EQ(tasks(R"(
    %p : f32[128, 512] = aten.mm(%x, %w)
    %q : f32[128, 64] = aten.mm(%z, %v)
    return %p, %q)"),
            "matmul.mm matmul.mm");
  EXPECT_EQ(tasks(R"(
    %y : f32[64, 256] = aten.slice.Tensor(%x, 0, 0, 64) view(0)
    %u : f32[64, 256] = aten.slice.Tensor(%x, 0, 64, 128) view(16384)
    %p : f32[64, 512] = aten.mm(%y, %w)
    %q : f32[64, 512] = aten.mm(%u, %w)
    return %p, %q)"),
            "matmul.mm matmul.mm");
}

// Like the gate of a feed-forward network and the product that it is multiplied with.
TEST(MergeProducts, GateGoesInStepWithWhatItIsMultipliedWith) {
  const program::Program program = program_of(R"(
    %p : f32[128, 512] = aten.mm(%x, %w)
    %q : f32[128, 512] = aten.mm(%x, %w)
    %s : f32[128, 512] = aten.silu(%p)
    %m : f32[128, 512] = aten.mul.Tensor(%s, %q)
    %r : f32[128, 256] = aten.mm(%m, %d)
    return %r)");
  ASSERT_EQ(tasks_of(program), "matmul.mm.mm.silu.mul matmul.mm");
  const program::Task& task = program.tasks[0];
  // Operands: x; w, p; w, p, m.
  ASSERT_EQ(task.operands.size(), 6u);
  EXPECT_EQ(task.operands[2].access, program::Access::kWrite);
  EXPECT_EQ(task.operands[4].access, program::Access::kRead);
  EXPECT_EQ(task.operands[4].buffer, task.operands[2].buffer);
  expect_only_share(task, {.written = 5, .read = 4});
}

TEST(MergeProducts, NotWhereOneReadsTheOtherElsewhere) {
  // It reads other columns.
  EXPECT_EQ(tasks(R"(
    %p : f32[128, 512] = aten.mm(%x, %w)
    %q : f32[128, 64] = aten.mm(%x, %v)
    %f : f32[128, 64] = aten.slice.Tensor(%p, 1, 64, 128) view(256)
    %m : f32[128, 64] = aten.mul.Tensor(%f, %q)
    %r : f32[128, 64] = aten.relu(%m)
    return %r)"),
            "matmul.mm matmul.mm.mul.relu");
  // It reads one column for all of its own.
  EXPECT_EQ(tasks(R"(
    %p : f32[128, 512] = aten.mm(%x, %w)
    %q : f32[128, 512] = aten.mm(%x, %w)
    %f : f32[128, 1] = aten.slice.Tensor(%p, 1, 64, 65) view(256)
    %m : f32[128, 512] = aten.mul.Tensor(%f, %q)
    return %m)"),
            "matmul.mm matmul.mm.mul");
  // It reads the first product as its factor, too.
  EXPECT_EQ(tasks(R"(
    %p : f32[128, 256] = aten.mm(%x, %o)
    %q : f32[128, 256] = aten.mm(%p, %o)
    %m : f32[128, 256] = aten.mul.Tensor(%p, %q)
    return %m)"),
            "matmul.mm matmul.mm.mul");
}

TEST(MergeProducts, OneMayStillOverwriteItsResidual) {
  const program::Program program = program_of(R"(
    %p : f32[128, 256] = aten.mm(%x, %o)
    %q : f32[128, 256] = aten.mm(%x, %o)
    %m : f32[128, 256] = aten.add.Tensor(%z, %q)
    return %p, %m)");
  ASSERT_EQ(tasks_of(program), "matmul.mm.mm.add");
  // Operands: x; o, p; o, z, m.
  const program::Task& task = program.tasks[0];
  expect_only_share(task, {.written = 5, .read = 4});
}

// Like query, key and value, with their norms between the products.
TEST(MergeProducts, OverTasksThatTouchNoneOfTheirs) {
  EXPECT_EQ(tasks(R"(
    %p : f32[128, 512] = aten.mm(%x, %w)
    %s : f32[128, 512] = aten._softmax(%p, -1, false)
    %n : f32[128, 512] = aten.mm(%x, %w)
    %t : f32[128, 512] = aten._softmax(%n, -1, false)
    %r : f32[128, 64] = aten.mm(%x, %v)
    return %s, %t, %r)"),
            "matmul.mm.mm.mm loop._softmax loop._softmax");
}

TEST(MergeProducts, NotOverWhatMakesTheirWeights) {
  EXPECT_EQ(tasks(R"(
    %p : f32[128, 512] = aten.mm(%x, %w)
    %u : f32[256, 512] = aten._softmax(%w, -1, false)
    %q : f32[128, 512] = aten.mm(%x, %u)
    return %p, %q)"),
            "matmul.mm loop._softmax matmul.mm");
}

TEST(MergeProducts, NotOverManyTasks) {
  std::string between;
  for (int i = 0; i < 9; ++i)
    between += cat("    %s", i, " : f32[128, 256] = aten.mm(%", i == 0 ? "z" : cat("s", i - 1), ", %o)\n");
  const std::string found = tasks("    %p : f32[128, 512] = aten.mm(%x, %w)\n" + between +
                                  "    %q : f32[128, 64] = aten.mm(%x, %v)\n    return %p, %s8, %q");
  EXPECT_EQ(std::ranges::count(found, ' '), 10) << found;
}

TEST(MergeProducts, NotWhereTheFactorIsWrittenInBetween) {
  EXPECT_EQ(tasks(R"(
    %p : f32[128, 512] = aten.mm(%x, %w)
    %y : f32[128, 256] = aten.mul_.Tensor(%x, 2)
    %q : f32[128, 64] = aten.mm(%x, %v)
    return %p, %q)"),
            "matmul.mm loop.mul_ matmul.mm");
}

}  // namespace
}  // namespace npugraph::lower
