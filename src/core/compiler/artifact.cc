// SPDX-License-Identifier: Apache-2.0
#include "compiler/artifact.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <stdexcept>
#include <utility>

#include "base/counters.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/words.h"
#include "compiler/defect_report.h"
#include "compiler/saved_program.h"
#include "ir/text.h"
#include "program/file.h"
#include "program/program.h"
#include "program/text.h"
#include "runtime/held_memory.h"
#include "runtime/observation.h"

namespace npugraph::compiler {

namespace {

constexpr const char* kLower = "lower";
constexpr const char* kPlan = "plan";

}  // namespace

Artifact::Artifact(ir::Graph graph, CompileRequest request, CompileHost host, runtime::Host& runtime_host,
                   std::vector<Partition> partitions, const std::vector<PhaseTime>& front_end_phases)
    : request_(std::move(request)),
      host_(std::move(host)),
      is_saved_(false),
      imported_(std::move(graph)),
      partitions_(std::move(partitions)) {
  trace_past_phases(front_end_phases);
  try {
    compile_and_build(runtime_host, front_end_phases);
  } catch (const std::logic_error& error) {  // an InternalError, or one of the standard library's
    const bool is_ours = dynamic_cast<const InternalError*>(&error) != nullptr;
    const std::string message = is_ours ? error.what() : internal_error_text(error.what());
    throw ReportedDefect(report_defect(message, imported_, environment().report_dir));
  }
  for (const auto& [count, value] : compile_counters()) {
    // Code counts itself when it is made, which may be as late as the first run.
    if (!count.starts_with("kernel_build") && count != "kernel_loads") process_counters().at(count).add(value);
  }
}

Artifact::Artifact(program::Loaded loaded, RunRequest request, CompileHost host, runtime::Host& runtime_host)
    : host_(std::move(host)),
      is_saved_(true),
      facts_(std::move(loaded.metadata)),
      program_(std::make_shared<const program::Program>(std::move(loaded.program))) {
  request_.name = program_->name;
  request_.run = std::move(request);
  result_.notes.resize(program_->tasks.size());
  build(runtime_host, nullptr);
}

void Artifact::build(runtime::Host& runtime_host, GeneratedTasks* generated) {
  Runnable made = make_runnable(program_, runtime_host, request_.run, host_.make_task, generated);
  static_kernels_ = std::move(made.static_kernels);
  executable_ = std::move(made.executable);
}

void Artifact::compile_and_build(runtime::Host& runtime_host, const std::vector<PhaseTime>& front_end_phases) {
  result_ = compile(imported_, request_, host_);
  result_.phases.insert(result_.phases.begin(), front_end_phases.begin(), front_end_phases.end());
  program_ = std::make_shared<const program::Program>(std::move(result_.program));
  const std::shared_ptr<GeneratedTasks> generated = std::move(result_.generated);
  run_phase(result_.phases, "build", [&] { build(runtime_host, generated.get()); });
  if (is_printed(LogLevel::kEvent)) {
    for (const PhaseTime& phase : result_.phases)
      log_event(name(), ": ", phase.name, " took ", phase.milliseconds, " ms");
  }
  if (log_enabled(LogLevel::kInfo)) log_compile();
}

// "forward_0: compiled in 84 ms, 3 tasks: aten 1, loop 2", and a line for each task of Python.
void Artifact::log_compile() const {
  double milliseconds = 0;
  for (const PhaseTime& phase : result_.phases) milliseconds += phase.milliseconds;
  std::map<std::string_view, int64_t> kinds;
  for (const program::Task& task : program_->tasks) ++kinds[program::name_of(task.kind)];
  std::string text;
  for (const auto& [kind, count] : kinds) text += cat(text.empty() ? ": " : ", ", kind, " ", count);
  log_info(name(), ": compiled in ", std::llround(milliseconds), " ms, ", counted(std::ssize(program_->tasks), "task"),
           text);
  for (const Partition& partition : partitions_) {
    log_info(name(), ": ", partition.target, partition.source.empty() ? "" : cat(" (", partition.source, ")"),
             " runs in Python between captured tasks: ", partition.reason);
  }
}

std::vector<std::string> Artifact::graph_stages() const {
  if (is_saved_) return {};
  std::vector<std::string> names = {"import"};
  std::map<std::string, int> seen;
  for (const std::string& pass : request_.passes) {
    const int nth = ++seen[pass];
    names.push_back(nth == 1 ? pass : cat(pass, ".", nth));
  }
  return names;
}

ir::Graph Artifact::graph(const std::string& stage) const {
  const std::vector<std::string> names = graph_stages();
  if (stage == kPlan || (stage == kLower && !is_saved_)) {
    const std::string last = is_saved_ ? "" : cat("; the last graph is that of \"", names.back(), "\"");
    throw UserError(cat("after \"", stage, "\" ", name(), " is a Program and no graph any more", last));
  }
  const auto at = std::find(names.begin(), names.end(), stage);
  if (at == names.end()) fail_unknown(stage);
  return graph_after(imported_, static_cast<size_t>(at - names.begin()), request_, host_);
}

std::vector<std::pair<std::string, ir::Graph>> Artifact::changed_graphs() const {
  const std::vector<std::string> names = graph_stages();
  std::vector<std::pair<std::string, ir::Graph>> changed;
  if (is_saved_) return changed;
  for (auto& [passes, graph] : graphs_after_changes(imported_, request_, host_)) {
    changed.emplace_back(names[passes], std::move(graph));
  }
  return changed;
}

std::vector<std::string> Artifact::stages() const {
  std::vector<std::string> names = graph_stages();
  if (!is_saved_) names.emplace_back(kLower);
  names.emplace_back(kPlan);
  return names;
}

void Artifact::fail_unknown(const std::string& stage) const {
  std::string known;
  for (const std::string& name : stages()) known += cat(known.empty() ? "" : ", ", name);
  throw UserError(cat("unknown stage \"", stage, "\"; the stages of ", name(), " are: ", known));
}

std::string Artifact::text(const std::string& stage) const {
  if (stage == kPlan) return program_text();
  if (stage == kLower && !is_saved_) return program::print(lowered(imported_, request_, host_));
  return ir::print(graph(stage));
}

std::string Artifact::program_text() const { return program::print(*program_); }

namespace {

// Evaluates expressions for the sizes of the latest call; returns them unchanged before the first one.
class LatestSizes {
 public:
  LatestSizes(const program::Program& program, std::optional<std::vector<Scalar>> values)
      : program_(program), values_(std::move(values)) {}

  Expr operator()(const Expr& e) const {
    if (e.is_constant() || !values_) return e;
    return substitute(e, [this](const Expr& symbol) {
      const auto is_it = [&](const program::Symbol& other) { return other.name == symbol.symbol_name(); };
      const auto at = std::ranges::find_if(program_.symbols, is_it);
      if (at == program_.symbols.end()) return symbol;
      return Expr::constant((*values_)[static_cast<size_t>(at - program_.symbols.begin())]);
    });
  }

 private:
  const program::Program& program_;
  const std::optional<std::vector<Scalar>> values_;
};

}  // namespace

std::vector<lower::LeftApart> Artifact::left_apart() const {
  const LatestSizes latest(*program_, runtime::Observation(*executable_).latest_symbols());
  std::vector<lower::LeftApart> pairs = result_.left_apart;
  for (lower::LeftApart& pair : pairs) pair.bytes = latest(pair.bytes);
  return pairs;
}

std::vector<TaskInfo> Artifact::tasks() const {
  const LatestSizes latest(*program_, runtime::Observation(*executable_).latest_symbols());
  const std::vector<runtime::TaskTraffic> traffic = runtime::Observation(*executable_).traffic();
  std::vector<TaskInfo> infos;
  for (size_t i = 0; i < program_->tasks.size(); ++i) {
    const program::Task& task = program_->tasks[i];
    infos.push_back({.name = task.name,
                     .kind = std::string(program::name_of(task.kind)),
                     .stream = task.stream,
                     .waits = task.waits,
                     .limits = runtime::by_name(task.limits),
                     .origin = task.origin,
                     .source = task.source,
                     .reason = task.reason,
                     .bytes_read = traffic[i].bytes_read,
                     .bytes_written = traffic[i].bytes_written,
                     .bytes_copied = traffic[i].bytes_copied,
                     .begin_nanoseconds = traffic[i].begin_nanoseconds,
                     .nanoseconds = traffic[i].nanoseconds,
                     .least_nanoseconds = traffic[i].least_nanoseconds,
                     .most_nanoseconds = traffic[i].most_nanoseconds,
                     .saved_bytes = latest(result_.notes[i].saved_bytes),
                     .operations = latest(result_.notes[i].operations)});
  }
  return infos;
}

std::vector<BufferInfo> Artifact::buffers() const {
  std::vector<BufferInfo> infos;
  const auto end = static_cast<int64_t>(program_->tasks.size());
  for (const runtime::BufferLife& life : runtime::Observation(*executable_).lives()) {
    const program::Buffer* buffer = life.buffer ? &program_->buffers[*life.buffer] : nullptr;
    infos.push_back(
        {.name = buffer == nullptr ? program_->tasks[*life.first].name : buffer->name,
         .kind = std::string(buffer == nullptr ? "workspace" : name_in(program::kBufferClassNames, buffer->cls)),
         .bytes = life.bytes,
         .offset = life.offset.value_or(-1),
         .first_task = life.first ? *life.first : end,
         .last_task = life.last ? *life.last : end});
  }
  return infos;
}

std::map<std::string, int64_t> Artifact::counters() const {
  std::map<std::string, int64_t> counters = compile_counters();
  const runtime::Counters run = runtime::Observation(*executable_).counters();
  for (const runtime::CounterName& name : runtime::kCounterNames) counters.emplace(name.name, run.*name.count);
  if (static_kernels_) {
    const StaticKernels::Counts own = static_kernels_->counts();
    counters.insert({{"static_kernels", own.tasks},
                     {"static_kernel_builds", own.builds},
                     {"static_kernel_loads", own.loads},
                     {"static_kernel_failures", own.failures}});
  }
  return counters;
}

std::map<std::string, int64_t> Artifact::compile_counters() const {
  const auto kernels = std::count_if(program_->tasks.begin(), program_->tasks.end(), [](const program::Task& task) {
    return !program::has(task.kind, program::KindTrait::kOfHost);
  });
  const int64_t made = result_.kernel_builds + result_.kernel_loads;
  std::map<std::string, int64_t> counters = {{"compiles", is_saved_ ? 0 : 1},
                                             {"kernel_builds", result_.kernel_builds},
                                             {"kernel_build_ns", result_.kernel_build_ns},
                                             {"kernel_loads", result_.kernel_loads},
                                             {"kernel_hits", is_saved_ ? 0 : std::max<int64_t>(kernels - made, 0)}};
  for (const passes::PassRecord& pass : result_.passes) counters["pass." + pass.name] += pass.hits;
  return counters;
}

void Artifact::save(const std::string& path, const SaveRequest& request) const {
  program::Metadata facts = request.facts;
  facts.insert(host_.facts.begin(), host_.facts.end());
  if (request.torch_free && is_saved_) require_torch_free(*program_);
  const bool is_other = request.torch_free && !is_saved_;
  const program::Program other = is_other ? compile_torch_free(imported_, request_, host_) : program::Program();
  const program::Program& program = is_other ? other : *program_;
  if (!request.guarded || is_saved_) return program::save(program, facts, path);
  program::save(guarded(program, imported_, request_.guards), facts, path);
}

void Artifact::refresh() { runtime::HeldMemory(*executable_).trim(); }

}  // namespace npugraph::compiler
