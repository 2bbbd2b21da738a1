// SPDX-License-Identifier: Apache-2.0
// Code for the generated tasks of a Program.
#include "compiler/generated_tasks.h"

#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "compiler/compiler_testing.h"

namespace npugraph::compiler {
namespace {

// Two chains with equal code, and another chain.
constexpr std::string_view kChains = R"(npugraph.graph 1 @chains {
  input %x : f32[40] user "x"
  input %y : f32[40] user "y"
  %a : f32[40] = aten.neg(%x)
  %b : f32[40] = aten.add.Tensor(%a, %y)
  %c : f32[40] = aten.neg(%y)
  %d : f32[40] = aten.add.Tensor(%c, %x)
  %e : f32[40] = aten.abs(%x)
  %f : f32[40] = aten.mul.Tensor(%e, %y)
  return %b, %d, %f
})";

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// A compile of kChains on a host that makes no code for "loop.abs.mul".
template <typename Error>
std::string error_of(const Error& error) {
  const auto make = [&](const program::Program& program, const program::Task& task) {
    if (task.name == "loop.abs.mul") throw error;
    return make_task(program, task);
  };
  try {
    compile_text(kChains, NoCatalog(), {}, make);
  } catch (const InternalError& met) {
    const std::string text = met.what();  // its other lines say where the report is
    return text.substr(0, text.find('\n'));
  }
  return "";
}

TEST(GeneratedTasks, ThatCannotBeMadeAreInternalErrors) {
  EXPECT_EQ(error_of(UserError("too hard")),
            "internal error: code of loop.abs.mul: too hard. This is a bug in npugraph.");
  EXPECT_EQ(error_of(InternalError(internal_error_text("too hard"))),
            "internal error: code of loop.abs.mul: too hard. This is a bug in npugraph.");
}

TEST(GeneratedTasks, EqualCodeIsMadeOnce) {
  const std::string same = replace_all(std::string(kChains), "40", "48");  // no other test uses these sizes
  const std::string other = std::string(same).replace(same.find("aten.neg(%y)"), 8, "aten.abs");
  for (const auto& [text, builds] : {std::pair(same, 2), {same, 0}, {other, 1}}) {
    const auto counters = compile_text(text, NoCatalog(), {}, make_task)->counters();
    EXPECT_EQ(counters.at("kernel_builds"), builds);
    EXPECT_EQ(counters.at("kernel_hits"), 3 - builds);
    EXPECT_EQ(counters.at("kernel_build_ns") > 0, builds > 0);
  }
}

TEST(GeneratedTasks, ExplainShowsTheShareAndTheScores) {
  const std::string page = compile_text(kChains, NoCatalog(), {}, make_task)->explain();
  EXPECT_NE(page.find("\nGenerated code\n  3 of 3 tasks"), std::string::npos) << page;
  EXPECT_NE(page.find("   2x loop.neg.add: fusion saves 640 B\n     1x loop.abs.mul: fusion saves 320 B\n"),
            std::string::npos)
      << page;
}

TEST(GeneratedTasks, ExplainShowsWhatWasLeftApart) {
  const auto artifact = compile_text(R"(npugraph.graph 1 @test {
    input %x : f32[200, 300] user "x"
    %a : f32[200, 300] = aten.exp(%x)
    %r : f32[200] = aten.sum.dim_IntList(%a, [1])
    %b : f32[200, 300] = aten.tanh(%a)
    %c : f32[300] = aten.sum.dim_IntList(%b, [0])
    return %r, %c
  })",
                                     NoCatalog(), {}, make_task);
  const std::string page = artifact->explain();
  EXPECT_NE(page.find("1x left apart, 234.4 KiB are loaded again: "), std::string::npos) << page;
}

}  // namespace
}  // namespace npugraph::compiler
