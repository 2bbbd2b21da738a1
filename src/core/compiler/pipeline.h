// SPDX-License-Identifier: Apache-2.0
// The compiler, from an imported Graph to a planned Program, and the times of its phases.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/trace.h"
#include "compiler/generated_tasks.h"
#include "compiler/request.h"
#include "compiler/task_makers.h"
#include "ir/graph.h"
#include "lower/catalog.h"
#include "lower/groups.h"
#include "lower/lower.h"
#include "lower/super_kernels.h"
#include "passes/pass.h"
#include "program/file.h"
#include "program/program.h"

namespace npugraph::compiler {

// How long the phases of a compile took, for people and in the trace.

struct PhaseTime {
  std::string name;
  double milliseconds = 0;
};

// The category of phases and passes in the trace.
inline constexpr std::string_view kTraceCategory = "compile";

// Runs one phase with its timer and trace span.
template <typename Fn>
auto run_phase(std::vector<PhaseTime>& times, const char* name, Fn&& fn) {
  const trace::Span span(name, kTraceCategory);
  struct Stop {
    std::vector<PhaseTime>& times;
    const char* name;
    int64_t begin = now_ns();
    ~Stop() { times.push_back({name, static_cast<double>(now_ns() - begin) * 1e-6}); }
  } const stop{times, name};
  return fn();
}

// Adds phases that were timed elsewhere to the trace: one after the other, the last one ends now.
void trace_past_phases(const std::vector<PhaseTime>& phases);

// The functions and facts of the process that the compiler needs.
struct CompileHost {
  const lower::OperatorCatalog* catalog = nullptr;
  passes::ConstantEvaluator evaluate;  // may be empty
  runtime::MakeTask make_task = compiler::make_task;
  program::Metadata facts;  // properties that a process must share to run a saved Program: "torch" -> "2.13.0"
};

struct CompileResult {
  program::Program program;
  std::vector<lower::TaskNote> notes;  // per task
  std::vector<lower::LeftApart> left_apart;
  std::vector<lower::ScopeResult> scopes;     // scopes of super kernels, if the request asks for them
  std::vector<lower::Grouping> groupings;     // tasks that could run at the same time
  std::shared_ptr<GeneratedTasks> generated;  // generated tasks of the Program
  int64_t kernel_builds = 0;                  // pieces of code that LLVM made
  int64_t kernel_build_ns = 0;                // its time, summed over threads
  int64_t kernel_loads = 0;                   // pieces of code that were read from disk
  std::vector<passes::PassRecord> passes;
  std::vector<passes::Remark> remarks;
  std::vector<PhaseTime> phases;
};

// Runs all phases on `graph`.
CompileResult compile(ir::Graph graph, const CompileRequest& request, const CompileHost& host);

// The graph as it was after the first `passes` entries of the request's passes. Compiling is deterministic, so stages
// are not kept but made again on request.
ir::Graph graph_after(ir::Graph imported, size_t passes, const CompileRequest& request, const CompileHost& host);
// Pairs of a number of passes and the graph after them: (0, imported graph), and one for each entry of the request's
// passes that hit.
std::vector<std::pair<size_t, ir::Graph>> graphs_after_changes(const ir::Graph& imported, const CompileRequest& request,
                                                               const CompileHost& host);
// The lowered Program before it was planned.
program::Program lowered(ir::Graph imported, const CompileRequest& request, const CompileHost& host);

}  // namespace npugraph::compiler
