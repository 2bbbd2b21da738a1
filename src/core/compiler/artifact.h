// SPDX-License-Identifier: Apache-2.0
// The products of one compile, or the Program that one has saved, and all queries about them. Python exposes these
// fields: they are frozen.
//
// Thread-safe after construction.
#pragma once

#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/pipeline.h"
#include "compiler/runnable.h"
#include "runtime/watch/ledger.h"

namespace npugraph::compiler {

// A part of the user's program that was not captured as an ATen task, or not at all.
struct Partition {
  std::string node;     // FX node
  std::string target;   // operator or callable
  std::string source;   // "file.py:12 in forward"
  std::string runs_as;  // "python"
  std::string reason;
};

struct TaskInfo {
  std::string name;
  std::string kind;  // name_of(program::TaskKind)
  int32_t stream = 0;
  std::vector<int32_t> waits;   // tasks of other streams that it waits for
  runtime::NamedLimits limits;  // limits of its number of workers
  std::string origin;
  std::string source;
  std::string reason;
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t bytes_copied = 0;
  // runtime::TaskTraffic
  int64_t begin_nanoseconds = 0;
  int64_t nanoseconds = 0;
  int64_t least_nanoseconds = 0;
  int64_t most_nanoseconds = 0;
  // Symbolic before the first call, then numbers.
  Expr saved_bytes;  // extra bytes that its operators would load and store as single tasks
  Expr operations;   // ops/node_facts.h
};

// A buffer or workspace that tasks write, with the first and the last task that touch it. An index equal to the number
// of tasks is the time when results are handed out.
struct BufferInfo {
  std::string name;  // a workspace has the name of its task
  std::string kind;  // "arena", "heap", "output", "workspace"
  int64_t bytes = 0;
  int64_t offset = -1;     // in the arena; -1: elsewhere
  int64_t first_task = 0;  // the number of tasks: when results are handed out
  int64_t last_task = 0;   // likewise
};

// Counts of a graph that runs in pieces inside of captured graphs.
struct InPieces {
  int64_t captures = 0;  // captured graphs of which it is a part
  int64_t runs = 0;
};

struct SaveRequest {
  // The Program tests at each call what CompileRequest::guards says; else whoever keeps the file does.
  bool guarded = true;
  bool torch_free = false;
  program::Metadata facts;  // travels with the Program
};

class Artifact {
 public:
  // Compiles `graph` and builds its tasks on `runtime_host`, which must outlive the Artifact. Defects of npugraph
  // itself throw a ReportedDefect.
  Artifact(ir::Graph graph, CompileRequest request, CompileHost host, runtime::Host& runtime_host,
           std::vector<Partition> partitions, const std::vector<PhaseTime>& front_end_phases);

  // A Program that an earlier compile has saved. There are no graphs, and so nothing to tell about passes and fusion.
  Artifact(program::Loaded loaded, RunRequest request, CompileHost host, runtime::Host& runtime_host);

  const std::string& name() const { return request_.name; }
  const CompileRequest& request() const { return request_; }
  const program::Program& program() const { return *program_; }
  const std::shared_ptr<runtime::Executable>& executable() const { return executable_; }

  // "import", then each pass ("cse", the second time "cse.2"). None for a saved Program.
  std::vector<std::string> graph_stages() const;
  // The graph stages, then "lower" and "plan", after which there is a Program. "plan" alone for a saved one.
  std::vector<std::string> stages() const;
  // The graph after a stage. UserError if the stage is unknown, with a list of the stages, or if a Program follows it.
  ir::Graph graph(const std::string& stage) const;
  // Name and graph of "import" and of each pass that changed something.
  std::vector<std::pair<std::string, ir::Graph>> changed_graphs() const;
  // The text of the graph or the Program after a stage. UserError with a list of the stages if it is unknown.
  std::string text(const std::string& stage) const;
  std::string program_text() const;
  std::vector<TaskInfo> tasks() const;
  const std::vector<Partition>& partitions() const { return partitions_; }
  // "compiles", "captures", "replays", "eager_runs", "recaptures.<reason>", "pass.<name>", "cache_hits",
  // "cache_misses", and the kernels of its tasks by origin: "kernel_builds" were made by LLVM for this compile, in
  // "kernel_build_ns" summed over threads; "kernel_loads" were left on disk by an earlier process; "kernel_hits"
  // existed already, in equal tasks, from earlier compiles or precompiled. If the request asks for static kernels, also
  // "static_kernels", the number of tasks that Instances have of their own, and their builds, loads and failures.
  std::map<std::string, int64_t> counters() const;
  std::vector<PhaseTime> phases() const { return result_.phases; }
  // Scopes of super kernels; empty if the request asks for none.
  const std::vector<lower::ScopeResult>& scopes() const { return result_.scopes; }
  const std::vector<passes::PassRecord>& passes() const { return result_.passes; }
  const std::vector<passes::Remark>& remarks() const { return result_.remarks; }
  // Their bytes are symbolic before the first call, then those for the sizes of the latest call.
  std::vector<lower::LeftApart> left_apart() const;
  // Buffers for the sizes of the latest call; empty before the first one.
  std::vector<BufferInfo> buffers() const;
  // A page for people.
  std::string explain(const InPieces& in_pieces = {}) const;
  // Writes the Program to a file. UserError as program::save() and compile_torch_free().
  void save(const std::string& path, const SaveRequest& request) const;
  // What save() was given; empty for a Program that was compiled here.
  const program::Metadata& facts() const { return facts_; }
  // Forgets all captures; the next call captures again from the tensors as they are then.
  void refresh();

 private:
  void build(runtime::Host& runtime_host, GeneratedTasks* generated);
  void log_compile() const;
  void compile_and_build(runtime::Host& runtime_host, const std::vector<PhaseTime>& front_end_phases);
  [[noreturn]] void fail_unknown(const std::string& stage) const;
  // The counters that are final when the compile ends.
  std::map<std::string, int64_t> compile_counters() const;
  std::string title(const InPieces& in_pieces) const;
  void print_memory(std::ostringstream& out, const std::vector<TaskInfo>& tasks) const;
  void print_peak(std::ostringstream& out, const std::vector<TaskInfo>& tasks) const;
  int64_t weight_bytes() const;
  void print_generated(std::ostringstream& out, const std::vector<TaskInfo>& tasks) const;
  CompileRequest request_;
  CompileHost host_;
  const bool is_saved_;  // there is no graph
  program::Metadata facts_;
  ir::Graph imported_;
  CompileResult result_;  // without its Program and its generated tasks, which the members below have
  std::vector<Partition> partitions_;
  std::shared_ptr<const program::Program> program_;
  std::shared_ptr<StaticKernels> static_kernels_;  // null if the request asks for none
  std::shared_ptr<runtime::Executable> executable_;
};

}  // namespace npugraph::compiler
