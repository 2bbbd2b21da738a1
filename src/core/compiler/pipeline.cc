// SPDX-License-Identifier: Apache-2.0
// The phases of the compiler in order, and why in this order. Contains no algorithm.
#include "compiler/pipeline.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/env.h"
#include "base/error.h"
#include "base/trace.h"
#include "ir/text.h"
#include "passes/pass.h"
#include "plan/plan.h"

namespace npugraph::compiler {

void trace_past_phases(const std::vector<PhaseTime>& phases) {
  if (!trace::enabled()) return;
  int64_t begin_ns = now_ns();
  for (const PhaseTime& phase : phases) begin_ns -= static_cast<int64_t>(phase.milliseconds * 1e6);
  for (const PhaseTime& phase : phases) {
    const int64_t end_ns = begin_ns + static_cast<int64_t>(phase.milliseconds * 1e6);
    trace::record({.name = phase.name,
                   .category = std::string(kTraceCategory),
                   .begin_ns = begin_ns,
                   .end_ns = end_ns,
                   .thread = trace::thread_id(),
                   .args = {}});
    begin_ns = end_ns;
  }
}

std::vector<std::string> default_passes() {
  return {
      // First, because parts are operators like any others to the passes below.
      "expand_batch_norm_training",
      // Every later pass then matches fewer forms.
      "canonicalise",
      "remove_noops",
      // Equal computations once, so that the host folds equal creation operators once, and before anything becomes
      // in-place and so harder to merge.
      "cse",
      // Before fold_constants turns masks into constants, and before caches are updated in place. fuse_attention first:
      // it makes the masked attention that bound_attention matches.
      "fuse_attention",
      "bound_attention",
      // Before fold_constants could turn dequantised weights into constants; dce removes them, since nothing reads
      // them.
      "fold_dequantised",
      // Before fold_constants could compute the sums of constant weights.
      "fold_shifted_products",
      "dce",
      // Computes the nodes that depend on no input.
      "fold_constants",
      // Before dce: nodes that were read only for their sizes are dead afterwards.
      "detach_creations",
      "dce",
      // Grouped-query repeats vanish while caches are still functional. The dead repeats go at once: they would count
      // as readers of the old cache.
      "fold_repeat_kv",
      "dce",
      // These require the functional graph. expand_batch_norm comes after fold_constants, where the host would compute
      // the factors of constant parameters with other bits than generated code.
      "expand_batch_norm",
      "expand_pointwise_convolutions",
      "straighten",
      "drop_head_copies",
      // If a rearrangement and its inverse both have a copy, only views remain.
      "merge_copies",
      "dce",
      // A remaining clone reads the old value and so keeps its source from being updated in place.
      "remove_copies",
      // Before an operator updates a conversion or a concatenation in place, which would tie it to that memory.
      "fold_conversions",
      "sink_cat",
      // Intermediates before inputs: chains of updates shrink to the one link that reinplace_inputs resolves.
      "reinplace_intermediates",
      "reinplace_inputs",
      // Moves the copies into inputs that reinplace_inputs could not resolve.
      "hoist_copies",
      // In-place forms of scatters leave equal views, copies of x to x, and functional copies behind.
      "canonicalise",
      "cse",
      "remove_copies",
      "dce",
      // Last, because cse would merge the recomputed parts again.
      "recompute_parts",
  };
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
                                                 const CompileRequest& request, const CompileHost& host,
                                                 std::vector<passes::Remark>& remarks, AfterPass after) {
  passes::PassContext context{
      .evaluate = host.evaluate, .fuses = request.generate, .training = request.training, .remarks = {}};
  passes::DriverOptions driver;
  driver.disabled = request.disabled_passes;
  driver.verify = request.verify || environment().verify;
  driver.after = std::move(after);
  auto records = passes::run_passes(graph, pipeline, context, driver);
  remarks = std::move(context.remarks);
  return records;
}

lower::Lowered lower_graph(const ir::Graph& graph, const CompileRequest& request, const CompileHost& host) {
  return lower::lower(graph, *host.catalog,
                      {.generate = request.generate,
                       .join = request.join,
                       .place_parts = request.place_parts,
                       .keep_rest = request.keep_rest});
}

void lower_into(CompileResult& result, const ir::Graph& graph, const CompileRequest& request, const CompileHost& host) {
  lower::Lowered lowered = lower_graph(graph, request, host);
  result.program = std::move(lowered.program);
  result.notes = std::move(lowered.notes);
  result.left_apart = std::move(lowered.left_apart);
}

void generate_tasks(const CompileHost& host, CompileResult& result) {
  result.generated = std::make_shared<GeneratedTasks>(result.program, host.make_task);
  result.kernel_builds = result.generated->builds();
  result.kernel_build_ns = result.generated->build_ns();
  result.kernel_loads = result.generated->loads();
}

// Makes the tasks again, after some of them became parts of others. The code of the parts is in the caches of machine
// code, where generate_tasks() has put it.
void make_with_parts(const CompileHost& host, CompileResult& result) {
  result.generated = std::make_shared<GeneratedTasks>(result.program, host.make_task);
}

void merge_scopes(const CompileRequest& request, const CompileHost& host, CompileResult& result) {
  result.scopes = lower::merge_scopes(result.program, result.notes, request.super_kernels);
  make_with_parts(host, result);
}

void group_tasks(const CompileHost& host, CompileResult& result) {
  const size_t tasks = result.program.tasks.size();
  result.groupings = lower::group_tasks(result.program, result.notes, target::host_target());
  if (result.program.tasks.size() != tasks) make_with_parts(host, result);
}

}  // namespace

CompileResult compile(ir::Graph graph, const CompileRequest& request, const CompileHost& host) {
  CompileResult result;
  // 1. Graph -> Graph.
  result.passes = run_phase(result.phases, "passes", [&] {
    return run_graph_passes(graph, passes::find_passes(request.passes), request, host, result.remarks, pass_tracer());
  });
  const std::string violation = ir::verify(graph);
  NG_CHECK(violation.empty(), violation, "\n", ir::print(graph));
  // 2. Graph -> Program: nodes become tasks, values windows into buffers.
  run_phase(result.phases, "lower", [&] { lower_into(result, graph, request, host); });
  // 3. Machine code. Before tasks are joined, because the code of one task is made by one thread.
  run_phase(result.phases, "generate", [&] { generate_tasks(host, result); });
  // 4. Adjacent tasks of a scope become one.
  if (std::ranges::any_of(result.program.tasks, lower::is_scope_mark))
    run_phase(result.phases, "scopes", [&] { merge_scopes(request, host, result); });
  // 5. Small tasks that do not depend on each other become one, after the scopes of the user have taken theirs.
  if (request.group && request.generate) run_phase(result.phases, "group", [&] { group_tasks(host, result); });
  // 6. Program -> Program: the lifetimes of buffers. Last, because only now every task and its operands are known.
  run_phase(result.phases, "plan", [&] { plan::plan(result.program); });
  const std::string broken = program::verify(result.program);
  NG_CHECK(broken.empty(), broken);
  return result;
}

ir::Graph graph_after(ir::Graph imported, size_t passes, const CompileRequest& request, const CompileHost& host) {
  const auto all = passes::find_passes(request.passes);
  NG_CHECK(passes <= all.size(), "pass ", passes, " of ", all.size());
  std::vector<passes::Remark> ignored;
  run_graph_passes(imported, {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(passes)}, request, host, ignored,
                   {});
  return imported;
}

std::vector<std::pair<size_t, ir::Graph>> graphs_after_changes(const ir::Graph& imported, const CompileRequest& request,
                                                               const CompileHost& host) {
  std::vector<std::pair<size_t, ir::Graph>> graphs = {{0, imported}};
  size_t passes = 0;
  const auto keep = [&](const passes::Pass&, const ir::Graph& graph, const passes::PassRecord& record) {
    ++passes;
    if (record.hits > 0) graphs.emplace_back(passes, graph);
  };
  ir::Graph graph = imported;
  std::vector<passes::Remark> ignored;
  run_graph_passes(graph, passes::find_passes(request.passes), request, host, ignored, keep);
  return graphs;
}

program::Program lowered(ir::Graph imported, const CompileRequest& request, const CompileHost& host) {
  const ir::Graph graph = graph_after(std::move(imported), request.passes.size(), request, host);
  return lower_graph(graph, request, host).program;
}

}  // namespace npugraph::compiler
