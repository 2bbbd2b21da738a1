// SPDX-License-Identifier: Apache-2.0
#include "compiler/runnable.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/log.h"
#include "compiler/compiler_testing.h"
#include "compiler/task_makers.h"
#include "program/parts.h"

namespace npugraph::compiler {
namespace {

constexpr std::string_view kSymbolic = R"(npugraph.graph 1 @symbolic {
  symbol s0 : int
  symbol s1 : int
  input %x : f32[s0, s1] user "x"
  input %y : f32[7, 9] user "y"
  %a : f32[s0, s1] = aten.neg(%x)
  %b : f32[s0, s1] = aten.add.Tensor(%a, %x)
  %c : f32[7, 9] = aten.neg(%y)
  %d : f32[7, 9] = aten.add.Tensor(%c, %y)
  return %b, %d
})";

std::shared_ptr<const program::Program> program_of(std::string_view text) {
  const std::shared_ptr<const Artifact> artifact = compile_text(text, NoCatalog(), {}, make_task);
  return {artifact, &artifact->program()};
}

// Asks for the static kernel of task `t` of kSymbolic for these sizes, and returns whether there is one.
bool ask(StaticKernels& kernels, const program::Program& program, size_t t, int64_t s0, int64_t s1) {
  const std::vector<Scalar> symbols = {Scalar::of_int(s0), Scalar::of_int(s1)};
  const runtime::Specialise specialise = kernels.for_symbols(symbols);
  if (!specialise) return false;
  std::vector<ng_scalar> scalars;
  for (const int32_t e : program.tasks[t].scalars) {
    const auto lookup = [&](const std::string& name) { return Scalar::of_int(name == "s0" ? s0 : s1); };
    scalars.push_back({.i = evaluate(program.exprs[e], lookup).i});
  }
  const std::optional<ng_task> made = specialise(program.tasks[t], scalars);
  if (made) made->destroy(made->context);
  return made.has_value();
}

class StaticKernelsTest : public testing::Test {
 protected:
  StaticKernelsTest() {
    set_log_sink([this](LogLevel, const std::string& message) { log_.push_back(message); });
  }
  ~StaticKernelsTest() override { set_log_sink({}); }

  runtime::MakeTask remembering() {
    return [this](const program::Program& program, const program::Task& task) {
      made_.push_back(std::get<std::string>(task.args.front()));
      return make_task(program, task);
    };
  }

  const std::shared_ptr<const program::Program> program_ = program_of(kSymbolic);
  std::vector<std::string> made_;
  std::vector<std::string> log_;
};

TEST_F(StaticKernelsTest, LoopsGetTheSizesOfTheInstance) {
  StaticKernels kernels(program_, {}, remembering());
  ASSERT_FALSE(program_->tasks[0].scalars.empty());
  EXPECT_TRUE(ask(kernels, *program_, 0, 5, 3));
  EXPECT_TRUE(ask(kernels, *program_, 0, 6, 3));
  ASSERT_EQ(made_.size(), 2u);
  EXPECT_NE(made_[0].find("15"), std::string::npos) << made_[0];
  EXPECT_NE(made_[1].find("18"), std::string::npos) << made_[1];
  EXPECT_EQ(kernels.counts().tasks, 2);
  EXPECT_EQ(kernels.lines(), (std::vector<std::string>{"s0=5, s1=3: 1 task has code of its own",
                                                       "s0=6, s1=3: 1 task has code of its own"}));
}

TEST_F(StaticKernelsTest, OnlyForTheValuesThatTheOptionsName) {
  StaticKernels kernels(program_, {.symbol = 1, .values = {{3, 4}}}, remembering());
  EXPECT_TRUE(ask(kernels, *program_, 0, 5, 3));
  EXPECT_FALSE(ask(kernels, *program_, 0, 3, 5));
  EXPECT_EQ(kernels.lines(), (std::vector<std::string>{"s0=5, s1=3: 1 task has code of its own",
                                                       "s0=3, s1=5: not among the values that the options name"}));
  StaticKernels none(program_, {.symbol = 2, .values = {{3}}}, remembering());
  EXPECT_FALSE(ask(none, *program_, 0, 3, 3));
}

TEST_F(StaticKernelsTest, LoopsOfASuperKernelToo) {
  const std::vector<program::Task> parts = {program_->tasks[0], program_->tasks[1]};
  auto program = std::make_shared<program::Program>(*program_);
  program->tasks = {program::super_kernel(parts, "block", 1)};
  std::vector<program::Task> made;
  StaticKernels kernels(program, {}, [&](const program::Program& of, const program::Task& task) {
    made.push_back(task);
    return make_task(of, task);
  });
  EXPECT_TRUE(ask(kernels, *program, 0, 5, 3));
  ASSERT_EQ(made.size(), 1u);
  const program::Parts super = program::parts_of(made[0]);
  EXPECT_EQ(super.workers, 1);
  EXPECT_NE(std::get<std::string>(super.tasks[0].args[0]), std::get<std::string>(parts[0].args[0]));
  EXPECT_EQ(std::get<std::string>(super.tasks[1].args[0]), std::get<std::string>(parts[1].args[0]));
}

TEST_F(StaticKernelsTest, WhatCannotBeMadeIsTriedOnce) {
  StaticKernels kernels(program_, {}, [&](const program::Program&, const program::Task& task) -> ng_task {
    made_.push_back(std::get<std::string>(task.args.front()));
    throw UserError("no such instruction");
  });
  EXPECT_FALSE(ask(kernels, *program_, 0, 50, 3));
  EXPECT_FALSE(ask(kernels, *program_, 0, 50, 3));
  EXPECT_EQ(made_.size(), 1u);
  EXPECT_EQ(kernels.counts().failures, 2);
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_TRUE(
      log_[0].starts_with("the static kernel of loop.neg.add for s0=50, s1=3 could not be made, so the task keeps "
                          "its code for all sizes: no such instruction\nIts text is in "))
      << log_[0];
  const std::string path = log_[0].substr(log_[0].find("Its text is in ") + 15);
  EXPECT_TRUE(std::filesystem::exists(path)) << path;
  std::filesystem::remove(path);
  EXPECT_EQ(kernels.lines(),
            std::vector<std::string>{"s0=50, s1=3: no tasks have code of their own, 2 could not be made"});
}

}  // namespace
}  // namespace npugraph::compiler
