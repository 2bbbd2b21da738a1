// SPDX-License-Identifier: Apache-2.0
// The table of contents of the compiler: its phases in order, and why in this order. No algorithm lives here.
#include "compiler/pipeline.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "base/env.h"
#include "base/error.h"
#include "base/trace.h"
#include "ir/text.h"
#include "passes/pass.h"
#include "plan/plan.h"

namespace npugraph::compiler {

const std::vector<passes::Pass>& graph_passes() {
  static const std::vector<passes::Pass> pipeline = {
      // One spelling for each thing first: every later pass then matches fewer forms.
      passes::find_pass("canonicalise"),
      passes::find_pass("remove_noops"),
      // Equal computations once, so that the host folds equal creation operators once, and before anything becomes in-place
      // and so harder to merge.
      passes::find_pass("cse"),
      // Before masks become numbers, and before caches are updated in place. First attention that has masks.
      passes::find_pass("fuse_attention"),
      passes::find_pass("bound_attention"),
      // Before the weights, which nobody reads then, could become constants.
      passes::find_pass("fold_dequantised"),
      passes::find_pass("dce"),
      // What depends on no input is computed now.
      passes::find_pass("fold_constants"),
      // Before the dead go: what was read for its sizes alone may be among them.
      passes::find_pass("detach_creations"),
      passes::find_pass("dce"),
      // Grouped-query repeats vanish while caches are still functional. The dead repeats go at once: they would count as
      // readers of the old cache.
      passes::find_pass("fold_repeat_kv"),
      passes::find_pass("dce"),
      // While everything is functional.
      passes::find_pass("expand_batch_norm"),
      passes::find_pass("straighten"),
      passes::find_pass("drop_head_copies"),
      // A rearrangement and its opposite, each with a copy, leave views alone behind.
      passes::find_pass("merge_copies"),
      passes::find_pass("dce"),
      // A clone that still stands is a reader of the old value and keeps its source from being updated in place.
      passes::find_pass("remove_copies"),
      // An operator that updates a conversion or a concatenation in place would be bound to it.
      passes::find_pass("fold_conversions"),
      passes::find_pass("sink_cat"),
      // Intermediates before inputs: chains of updates shrink to the one link that reinplace_inputs resolves.
      passes::find_pass("reinplace_intermediates"),
      passes::find_pass("reinplace_inputs"),
      // What could not be resolved.
      passes::find_pass("hoist_copies"),
      // In-place forms of scatters leave equal views behind; and copies of x to x, and of functional copies.
      passes::find_pass("canonicalise"),
      passes::find_pass("cse"),
      passes::find_pass("remove_copies"),
      passes::find_pass("dce"),
      // What cse would merge again.
      passes::find_pass("recompute_parts"),
  };
  return pipeline;
}

namespace {

using AfterPass = std::function<void(const passes::Pass&, const ir::Graph&, const passes::PassRecord&)>;

// A span in the trace for each pass, its verification included.
AfterPass pass_tracer() {
  if (!trace::enabled()) return {};
  return [begin_ns = now_ns()](const passes::Pass& pass, const ir::Graph&, const passes::PassRecord& record) mutable {
    const int64_t end_ns = now_ns();
    if (!record.disabled) {
      trace::record({.name = pass.name,
                     .category = std::string(kTraceCategory),
                     .begin_ns = begin_ns,
                     .end_ns = end_ns,
                     .thread = trace::thread_id(),
                     .args = {{"hits", int64_t{record.hits}}}});
    }
    begin_ns = end_ns;
  };
}

std::vector<passes::PassRecord> run_graph_passes(ir::Graph& graph, const std::vector<passes::Pass>& pipeline,
                                                 const CompileOptions& options, const CompileHost& host,
                                                 std::vector<passes::Remark>& remarks, AfterPass after) {
  passes::PassContext context{
      .evaluate = host.evaluate, .fuses = options.generate, .training = options.training, .remarks = {}};
  passes::DriverOptions driver;
  driver.disabled = options.disabled_passes;
  driver.verify = options.verify || environment().verify;
  driver.after = std::move(after);
  auto records = passes::run_passes(graph, pipeline, context, driver);
  remarks = std::move(context.remarks);
  return records;
}

lower::LowerOptions lower_options(const CompileOptions& options, const lower::Refusals& refused) {
  return {.generate = options.generate, .place_parts = options.place_parts, .refused = refused};
}

void lower_graph(const ir::Graph& graph, const CompileOptions& options, const CompileHost& host,
                 CompileResult& result) {
  lower::Lowered lowered = lower::lower(graph, *host.catalog, lower_options(options, result.refused));
  result.program = std::move(lowered.program);
  result.notes = std::move(lowered.notes);
  result.left_apart = std::move(lowered.left_apart);
}

// Lowers again without what the machine refuses, until it refuses nothing.
void generate_tasks(const ir::Graph& graph, const CompileOptions& options, const CompileHost& host,
                    CompileResult& result) {
  while (true) {
    result.generated = std::make_shared<GeneratedTasks>(result.program, host.generate);
    result.kernel_builds += result.generated->builds();
    result.kernel_build_ns += result.generated->build_ns();
    result.kernel_loads += result.generated->loads();
    if (result.generated->refused().empty()) return;
    for (const auto& [task, reason] : result.generated->refused()) {
      const bool is_new = result.refused.emplace(result.notes[task].node, lower::refusal(reason)).second;
      NG_CHECK(is_new, "refused code is generated: ", reason);
    }
    lower_graph(graph, options, host, result);
  }
}

// A super kernel takes its parts from the caches of machine code, where generate_tasks() has put them.
void merge_scopes(const CompileOptions& options, const CompileHost& host, CompileResult& result) {
  const lower::MergeOptions merging{.merges = options.super_kernels, .workers = options.super_kernel_workers};
  result.scopes = lower::merge_scopes(result.program, result.notes, merging);
  result.generated = std::make_shared<GeneratedTasks>(result.program, host.generate);
  NG_CHECK(result.generated->refused().empty(),
           "refused code is a part: ", result.generated->refused().begin()->second);
}

}  // namespace

CompileResult compile(ir::Graph graph, const CompileOptions& options, const CompileHost& host) {
  CompileResult result;
  // 1. Graph -> Graph.
  result.passes = run_phase(result.phases, "passes", [&] {
    return run_graph_passes(graph, graph_passes(), options, host, result.remarks, pass_tracer());
  });
  const std::string violation = ir::verify(graph);
  NG_CHECK(violation.empty(), violation, "\n", ir::print(graph));
  // 2. Graph -> Program: nodes become tasks, values windows into buffers.
  run_phase(result.phases, "lower", [&] { lower_graph(graph, options, host, result); });
  // 3. Machine code. Before the plan, because what cannot be generated is lowered to other tasks.
  run_phase(result.phases, "generate", [&] { generate_tasks(graph, options, host, result); });
  // 4. Adjacent tasks of a scope become one. After code was made, because only now it is known which tasks there are.
  if (std::ranges::any_of(result.program.tasks, lower::is_scope_mark))
    run_phase(result.phases, "scopes", [&] { merge_scopes(options, host, result); });
  // 5. Program -> Program: what lives how long. Last, because only now every task and its operands are known.
  run_phase(result.phases, "plan", [&] { plan::plan(result.program); });
  const std::string broken = program::verify(result.program);
  NG_CHECK(broken.empty(), broken);
  return result;
}

ir::Graph graph_after(ir::Graph imported, size_t passes, const CompileOptions& options, const CompileHost& host) {
  const auto& all = graph_passes();
  NG_CHECK(passes <= all.size(), "pass ", passes, " of ", all.size());
  std::vector<passes::Remark> ignored;
  run_graph_passes(imported, {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(passes)}, options, host, ignored,
                   {});
  return imported;
}

std::vector<std::pair<size_t, ir::Graph>> graphs_after_changes(const ir::Graph& imported, const CompileOptions& options,
                                                               const CompileHost& host) {
  std::vector<std::pair<size_t, ir::Graph>> graphs = {{0, imported}};
  size_t passes = 0;
  const auto keep = [&](const passes::Pass&, const ir::Graph& graph, const passes::PassRecord& record) {
    ++passes;
    if (record.hits > 0) graphs.emplace_back(passes, graph);
  };
  ir::Graph graph = imported;
  std::vector<passes::Remark> ignored;
  run_graph_passes(graph, graph_passes(), options, host, ignored, keep);
  return graphs;
}

program::Program lowered(ir::Graph imported, const CompileOptions& options, const CompileHost& host,
                         const lower::Refusals& refused) {
  const ir::Graph graph = graph_after(std::move(imported), graph_passes().size(), options, host);
  return lower::lower(graph, *host.catalog, lower_options(options, refused)).program;
}

}  // namespace npugraph::compiler
