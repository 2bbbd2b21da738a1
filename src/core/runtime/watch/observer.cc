// SPDX-License-Identifier: Apache-2.0
#include "runtime/watch/observer.h"

#include <utility>

#include "base/error.h"
#include "base/plan_notes.h"
#include "base/trace.h"
#include "runtime/threads/strands.h"
#include "runtime/threads/worker_pool.h"
#include "runtime/watch/running_tasks.h"

namespace npugraph::runtime {

bool Observer::wanted() {
  return TaskLog::instance().active() || npugraph::trace::enabled() || poison() || running_tasks_recorded() ||
         task_watch() != nullptr;
}

Observer::Observer(const Blueprint& blueprint, const Instance& instance, const Lease& lease,
                   const std::string& artifact, RunMode mode, const CallingStream& stream, std::vector<TimeSpan>* times,
                   Host& host, bool labels)
    : blueprint_(blueprint),
      instance_(instance),
      artifact_(artifact),
      mode_(mode),
      stream_(stream),
      times_(times),
      host_(host),
      labels_(labels),
      logs_(TaskLog::instance().active()),
      traces_(npugraph::trace::enabled()),
      poisons_(poison()),
      tells_what_runs_(running_tasks_recorded()),
      watch_(task_watch()) {
  if (times_ != nullptr) times_->resize(blueprint.program->tasks.size());
  if (instance.has_red_zones())
    zones_ = std::make_shared<RedZones>(blueprint, instance, host.red_zone_bytes(), lease.kept != nullptr);
  if (!poisons_) return;
  for (const Arena* memory : {&lease.working->arena, &lease.working->scratch})
    poison_memory(memory->data(), memory->capacity());
}

void Observer::staged(int64_t begin_ns) const {
  if (!logs_) return;
  TaskRecord record;
  record.artifact = artifact_;
  record.instance = key_text(blueprint_, instance_.sizes().symbols());
  record.task = program::kNone;
  record.name = "stage_inputs";
  record.kind = "copy";
  record.stream_id = stream_.id;
  record.device = stream_.device;
  record.mode = mode_;
  record.workers = {0};
  record.begin_ns = begin_ns;
  record.end_ns = now_ns();
  TaskLog::instance().add(std::move(record));
}

void Observer::before(int32_t task) {
  if (watch_ != nullptr) show(task, false);
  regions_ = WorkerPool::instance().regions();
  if (tells_what_runs_) begin_running(describe(task));
  if (zones_ != nullptr) zones_->begin(task);
  if (poisons_) poison_memory(instance_.steps()[task].call->workspace, instance_.workspace_bytes(task));
  if (labels_) begin_range(task);
  if (logs_) take_plan_note();  // of a task of another log
  begin_ns_ = now_ns();
}

void Observer::after(int32_t task) {
  const int64_t end_ns = now_ns();
  if (labels_) end_range();
  if (zones_ != nullptr) zones_->check(task);
  if (tells_what_runs_) end_running();
  if (times_ != nullptr) (*times_)[task] = {begin_ns_, end_ns};
  if (logs_) log(task, end_ns);
  if (traces_) trace(task, end_ns);
  if (watch_ != nullptr) show(task, true);
  // In strands, tasks of another strand that touch the memory may not be done yet.
  if (poisons_ && !blueprint_.has_strands()) poison_deaths(task);
}

void Observer::after_failure(int32_t task) {
  const int64_t end_ns = now_ns();
  if (labels_) end_range();
  if (tells_what_runs_) end_running();
  if (logs_) log(task, end_ns);
  if (traces_) trace(task, end_ns);
}

void Observer::begin_range(int32_t task) {
  const program::Task& of = blueprint_.program->tasks[task];
  range_ = host_.begin_range((of.source.empty() ? of.name : cat(of.name, " (", of.source, ")")).c_str());
}

void Observer::end_range() {
  if (range_ != nullptr) host_.end_range(std::exchange(range_, nullptr));
}

std::optional<int64_t> Observer::stream_id(const program::Task& task) const {
  return task.stream == 0 ? stream_.id : std::nullopt;
}

// "task 3, aten.mm.out (aten), stream 0 (id 7) of forward_0, at model.py:12 in forward"
std::string Observer::describe(int32_t t) const {
  const program::Task& task = blueprint_.program->tasks[t];
  const auto id = stream_id(task);
  return cat("task ", t, ", ", task.name, " (", program::name_of(task.kind), "), stream ", task.stream,
             id ? cat(" (id ", *id, ")") : "", " of ", artifact_, task.source.empty() ? "" : ", at ", task.source);
}

void Observer::trace(int32_t t, int64_t end_ns) const {
  const program::Task& task = blueprint_.program->tasks[t];
  npugraph::trace::Event event{.name = task.name,
                               .category = "task",
                               .begin_ns = begin_ns_,
                               .end_ns = end_ns,
                               .thread = npugraph::trace::thread_id(),
                               .args = {{"artifact", artifact_},
                                        {"task", int64_t{t}},
                                        {"origin", task.origin},
                                        {"source", task.source},
                                        {"stream", int64_t{task.stream}}}};
  if (const auto id = stream_id(task)) event.args.emplace_back("stream_id", *id);
  npugraph::trace::record(std::move(event));
}

void Observer::log(int32_t t, int64_t end_ns) const {
  const program::Task& task = blueprint_.program->tasks[t];
  TaskRecord record;
  record.artifact = artifact_;
  record.instance = key_text(blueprint_, instance_.sizes().symbols());
  record.task = t;
  record.name = task.name;
  record.kind = program::name_of(task.kind);
  record.mode = mode_;
  record.stream = task.stream;
  record.stream_id = stream_id(task);
  record.device = stream_.device;
  record.workers = WorkerPool::instance().workers_since(regions_);
  record.limits = by_name(limits_of(task, instance_.limits));
  record.waits = task.waits;
  record.plan = take_plan_note();
  record.begin_ns = begin_ns_;
  record.end_ns = end_ns;
  TaskLog::instance().add(std::move(record));
}

void Observer::show(int32_t t, bool done) const {
  const program::Program& program = *blueprint_.program;
  const program::Task& task = program.tasks[t];
  const ng_call& call = *instance_.steps()[t].call;
  WatchedTask watched{.artifact = artifact_, .task = t, .done = done, .operands = {}, .inputs = {}, .symbols = {}};
  watched.operands.reserve(task.operands.size());
  for (size_t i = 0; i < task.operands.size(); ++i) {
    const program::Operand& operand = task.operands[i];
    watched.operands.push_back({operand, program.buffers[operand.buffer], call.buffers[i]});
  }
  if (t == 0 && !done) add_inputs(watched);
  (*watch_)(watched);
}

void Observer::add_inputs(WatchedTask& watched) const {
  const program::Program& program = *blueprint_.program;
  const auto values = [&](const std::vector<program::Dim>& dims) {
    std::vector<int64_t> found;
    for (const program::Dim& dim : dims) found.push_back(instance_.sizes().value(dim).as_int());
    return found;
  };
  for (const program::Input& input : program.inputs) {
    if (input.buffer == program::kNone || instance_.base(input.buffer) == nullptr) continue;
    watched.inputs.push_back({input, program.buffers[input.buffer], instance_.base(input.buffer), values(input.sizes),
                              values(input.strides)});
  }
  const std::vector<Scalar>& known = instance_.sizes().symbols();
  for (size_t s = 0; s < program.symbols.size(); ++s) {
    if (program.symbols[s].task == program::kNone) watched.symbols.push_back({program.symbols[s], known[s]});
  }
}

void Observer::poison_deaths(int32_t task) const {
  for (const int32_t b : blueprint_.arena_deaths[task]) poison_memory(instance_.base(b), instance_.sizes().bytes(b));
}

}  // namespace npugraph::runtime
