// SPDX-License-Identifier: Apache-2.0
#include "compiler/artifact.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "program/file.h"
#include "program/text.h"

namespace npugraph::compiler {

Artifact::Artifact(ir::Graph graph, CompileOptions options, CompileHost host, runtime::Host& runtime_host,
                   std::vector<Partition> partitions, std::vector<PhaseTime> front_end_phases)
    : options_(std::move(options)),
      host_(std::move(host)),
      imported_(std::move(graph)),
      phases_(std::move(front_end_phases)),
      partitions_(std::move(partitions)) {
  CompileResult result = compile(imported_, options_, host_);
  passes_ = std::move(result.passes);
  remarks_ = std::move(result.remarks);
  phases_.insert(phases_.end(), result.phases.begin(), result.phases.end());
  program_ = std::make_shared<const program::Program>(std::move(result.program));
  const int64_t begin = now_ns();
  const runtime::Options run_options{
      .max_instances = options_.max_instances, .max_concurrent = options_.max_concurrent, .capture = options_.capture};
  executable_ = std::make_shared<runtime::Executable>(program_, runtime_host, run_options, options_.name);
  phases_.push_back({"build", static_cast<double>(now_ns() - begin) * 1e-6});
}

std::vector<std::string> Artifact::stages() const {
  std::vector<std::string> names = {"import"};
  std::map<std::string, int> seen;
  for (const passes::Pass& pass : graph_passes()) {
    const int nth = ++seen[pass.name];
    names.push_back(nth == 1 ? pass.name : cat(pass.name, ".", nth));
  }
  return names;
}

ir::Graph Artifact::graph(const std::string& stage) const {
  const std::vector<std::string> names = stages();
  const auto at = std::find(names.begin(), names.end(), stage);
  if (at == names.end()) {
    std::string known;
    for (const std::string& name : names) known += cat(known.empty() ? "" : ", ", name);
    throw UserError(cat("unknown stage \"", stage, "\"; the stages of ", name(), " are: ", known));
  }
  return graph_after(imported_, static_cast<size_t>(at - names.begin()), options_, host_);
}

std::string Artifact::program_text() const { return program::print(*program_); }

std::vector<TaskInfo> Artifact::tasks() const {
  const std::vector<runtime::TaskTraffic> traffic = executable_->traffic();
  std::vector<TaskInfo> infos;
  for (size_t i = 0; i < program_->tasks.size(); ++i) {
    const program::Task& task = program_->tasks[i];
    infos.push_back({.name = task.name,
                     .kind = std::string(program::name_of(task.kind)),
                     .stream = task.stream,
                     .origin = task.origin,
                     .source = task.source,
                     .reason = task.reason,
                     .bytes_read = traffic[i].bytes_read,
                     .bytes_written = traffic[i].bytes_written,
                     .nanoseconds = traffic[i].nanoseconds});
  }
  return infos;
}

std::map<std::string, int64_t> Artifact::counters() const {
  const runtime::Counters run = executable_->counters();
  const auto kernels = std::count_if(program_->tasks.begin(), program_->tasks.end(),
                                     [](const program::Task& task) { return task.kind == program::TaskKind::kKernel; });
  std::map<std::string, int64_t> counters = {
      {"compiles", 1},
      {"captures", run.captures},
      {"replays", run.replays},
      {"recaptures.new_symbols", run.recaptured_new_symbols},
      {"recaptures.evicted", run.recaptured_evicted},
      {"recaptures.forced", run.recaptured_forced},
      {"cache_hits", run.instance_hits},
      {"cache_misses", run.instance_misses},
      {"kernel_builds", 0},
      {"kernel_hits", kernels},
  };
  for (const passes::PassRecord& pass : passes_) counters["pass." + pass.name] += pass.hits;
  return counters;
}

void Artifact::save(const std::string& path) const { program::save(*program_, {{"name", options_.name}}, path); }

void Artifact::refresh() { executable_->trim(); }

}  // namespace npugraph::compiler
