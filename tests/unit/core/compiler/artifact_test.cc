// SPDX-License-Identifier: Apache-2.0
#include "compiler/artifact.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/trace.h"
#include "compiler/compiler_testing.h"
#include "ir/text.h"
#include "program/text.h"

namespace npugraph::compiler {
namespace {

TEST(Artifact, HasTextAfterEveryStage) {
  const NoCatalog catalog;
  const auto artifact = compile_text(kDoubles, catalog);
  std::vector<std::string> stages = artifact->graph_stages();
  EXPECT_EQ(stages.front(), "import");
  for (const std::string& stage : stages) EXPECT_TRUE(artifact->text(stage).starts_with("npugraph.graph 1 @doubles"));
  EXPECT_NE(artifact->text("import"), artifact->text("cse"));
  stages.insert(stages.end(), {"lower", "plan"});
  EXPECT_EQ(artifact->stages(), stages);
  EXPECT_TRUE(artifact->text("lower").starts_with("npugraph.program 4 @doubles"));
  EXPECT_NE(artifact->text("lower"), artifact->text("plan"));
  EXPECT_EQ(artifact->text("plan"), artifact->program_text());
}

TEST(Artifact, HasTheGraphsThatPassesChanged) {
  const NoCatalog catalog;
  const auto artifact = compile_text(kDoubles, catalog);
  std::vector<std::string> changing = {"import"};
  const std::vector<std::string> stages = artifact->graph_stages();
  for (size_t i = 0; i < artifact->passes().size(); ++i) {
    if (artifact->passes()[i].hits > 0) changing.push_back(stages[i + 1]);
  }
  std::vector<std::string> found;
  for (const auto& [stage, graph] : artifact->changed_graphs()) {
    found.push_back(stage);
    EXPECT_EQ(ir::print(graph), artifact->text(stage));
  }
  EXPECT_GT(found.size(), 1u);
  EXPECT_EQ(found, changing);
}

TEST(Artifact, NamesTheStagesForAWrongOne) {
  const NoCatalog catalog;
  const auto artifact = compile_text(kDoubles, catalog);
  const auto refusal = [](auto&& ask) -> std::string {
    try {
      ask();
    } catch (const UserError& error) {
      return error.what();
    }
    return "nothing was refused";
  };
  EXPECT_TRUE(
      refusal([&] { artifact->text("nope"); })
          .starts_with(
              "unknown stage \"nope\"; the stages of doubles are: import, expand_batch_norm_training, canonicalise, "));
  EXPECT_TRUE(refusal([&] { artifact->graph("nope"); }).ends_with("recompute_parts, lower, plan"));
  EXPECT_EQ(refusal([&] { artifact->graph("plan"); }),
            "after \"plan\" doubles is a Program and no graph any more; the last graph is that of \"recompute_parts\"");
}

TEST(Artifact, ExplainsWhatLivesWhenMostDoes) {
  const NoCatalog catalog;
  const auto artifact = compile_text(R"(npugraph.graph 1 @chain {
    input %x : f32[400] user "x"
    input %w : f32[2, 400] parameter "w"
    %a : f32[400] = aten.abs(%x)
    %b : f32[2, 400] = aten.mul.Tensor(%a, %w)
    return %b
  })",
                                     catalog);
  EXPECT_EQ(artifact->explain().find("live at once"), std::string::npos);
  std::vector<float> x(400), w(800);
  const int64_t sizes_of_x[] = {400}, sizes_of_w[] = {2, 400};
  const std::vector<runtime::BoundInput> inputs = {{.data = x.data(), .object = &x, .sizes = sizes_of_x},
                                                   {.data = w.data(), .object = &w, .sizes = sizes_of_w}};
  std::vector<runtime::BoundOutput> outputs(1);
  std::vector<int64_t> dims;
  ASSERT_EQ(artifact->executable()->run({.all = inputs}, outputs, dims).status, runtime::RunStatus::kOk);
  runtime::MallocHost().release(outputs[0].object);
  const std::string page = artifact->explain();
  EXPECT_NE(page.find("bound per call 4.7 KiB, of the model 3.1 KiB\n"
                      "  at most 4.7 KiB live at once, in kernel.binary_mul:\n"
                      "     3.1 KiB  result  made by kernel.binary_mul\n"
                      "     1.6 KiB  made by kernel.unary_abs, last used by kernel.binary_mul\n"),
            std::string::npos)
      << page;
}

const trace::Event& find(const std::vector<trace::Event>& events, const std::string& name) {
  const auto at = std::find_if(events.begin(), events.end(), [&](const auto& event) { return event.name == name; });
  EXPECT_NE(at, events.end()) << name;
  return *at;
}

TEST(Trace, HasEveryPhaseAndPassOfACompile) {
  const NoCatalog catalog;
  trace::start();
  const auto artifact = compile_text(kDoubles, catalog, {{"aot_autograd", 2.0}, {"import", 1.5}});
  const auto events = trace::stop();

  std::vector<std::string> expected = {"aot_autograd", "import"};
  for (const std::string& pass : default_passes()) expected.push_back(pass);
  expected.insert(expected.end(), {"passes", "lower", "generate", "plan", "build"});
  std::vector<std::string> names;
  for (const trace::Event& event : events) names.push_back(event.name);
  EXPECT_EQ(names, expected);

  const trace::Event& passes = find(events, "passes");
  int64_t end_ns = passes.begin_ns;
  for (size_t i = 2; i < 2 + default_passes().size(); ++i) {
    EXPECT_GE(events[i].begin_ns, end_ns);
    end_ns = events[i].end_ns;
  }
  EXPECT_LE(end_ns, passes.end_ns);

  const trace::Event& aot = find(events, "aot_autograd");
  const trace::Event& import = find(events, "import");
  EXPECT_EQ(aot.end_ns - aot.begin_ns, 2'000'000);
  EXPECT_EQ(import.begin_ns, aot.end_ns);
  EXPECT_EQ(import.end_ns - import.begin_ns, 1'500'000);
  EXPECT_LE(import.end_ns, passes.begin_ns);
}

TEST(Trace, LeavesOutPassesThatAreSwitchedOff) {
  const NoCatalog catalog;
  CompileHost host;
  host.catalog = &catalog;
  CompileRequest request;
  request.disabled_passes = {"cse"};
  trace::start();
  compile(ir::parse(kDoubles, "test", ops::registry()), request, host);
  for (const trace::Event& event : trace::stop()) EXPECT_NE(event.name, "cse");
}

TEST(Request, HasThePassesOfTheCompile) {
  const NoCatalog catalog;
  CompileHost host;
  host.catalog = &catalog;
  CompileRequest request;
  request.passes = {"cse", "dce"};
  const CompileResult result = compile(ir::parse(kDoubles, "test", ops::registry()), request, host);
  ASSERT_EQ(result.passes.size(), 2u);
  EXPECT_EQ(result.passes[0].name, "cse");
  EXPECT_EQ(result.passes[1].name, "dce");
  request.passes = {"cse", "ccse"};
  EXPECT_THROW(compile(ir::parse(kDoubles, "test", ops::registry()), request, host), UserError);
}

}  // namespace
}  // namespace npugraph::compiler
