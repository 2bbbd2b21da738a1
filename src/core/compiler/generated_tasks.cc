// SPDX-License-Identifier: Apache-2.0
#include "compiler/generated_tasks.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <unordered_map>

#include "base/error.h"
#include "codegen/jit/builds.h"
#include "program/program.h"

namespace npugraph::compiler {
namespace {

// The tasks that share one piece of machine code.
struct Job {
  std::vector<size_t> entries;
  std::vector<ng_task> tasks;
  std::optional<InternalError> error;
  int64_t builds = 0;
  int64_t build_ns = 0;
  int64_t loads = 0;
};

std::vector<Job> list_jobs(const program::Program& program) {
  std::vector<Job> jobs;
  std::unordered_map<std::string, size_t> job_of;
  for (size_t i = 0; i < program.tasks.size(); ++i) {
    const program::Task& task = program.tasks[i];
    if (!program::is_generated(task.kind)) continue;
    const std::string* text = program::text_of(task);
    const std::string key = cat(program::name_of(task.kind), text != nullptr ? *text : "");
    const auto [at, is_new] = job_of.emplace(key, jobs.size());
    if (is_new) jobs.emplace_back();
    jobs[at->second].entries.push_back(i);
  }
  return jobs;
}

// The error of the next task of a job.
InternalError error_of(const program::Program& program, const Job& job, const std::exception& error) {
  const program::Task& task = program.tasks[job.entries[job.tasks.size()]];
  const std::string where = cat("code of ", task.name, task.source.empty() ? "" : cat(" (", task.source, ")"));
  if (const auto* internal = dynamic_cast<const InternalError*>(&error)) return met_at(where, *internal);
  return InternalError(internal_error_text(cat(where, ": ", error.what())));
}

void run_job(const program::Program& program, const runtime::MakeTask& make, Job& job) {
  const codegen::BuildCount count;
  try {
    for (const size_t entry : job.entries) job.tasks.push_back(make(program, program.tasks[entry]));
  } catch (const std::exception& error) {
    job.error = error_of(program, job, error);
  }
  job.builds = count.builds();
  job.build_ns = count.nanoseconds();
  job.loads = count.loads();
}

}  // namespace

GeneratedTasks::GeneratedTasks(const program::Program& program, const runtime::MakeTask& make) {
  std::vector<Job> jobs = list_jobs(program);
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < jobs.size(); i = next++) run_job(program, make, jobs[i]);
  };
  {
    const size_t workers = std::min<size_t>(jobs.size(), std::thread::hardware_concurrency());
    std::vector<std::jthread> others;
    for (size_t i = 1; i < workers; ++i) others.emplace_back(work);
    work();
  }
  for (const Job& job : jobs) {
    builds_ += job.builds;
    build_ns_ += job.build_ns;
    loads_ += job.loads;
    for (size_t i = 0; i < job.tasks.size(); ++i) tasks_.emplace(job.entries[i], job.tasks[i]);
  }
  const auto failed = std::ranges::find_if(jobs, [](const Job& job) { return job.error.has_value(); });
  if (failed == jobs.end()) return;
  destroy_all();
  throw *failed->error;
}

GeneratedTasks::~GeneratedTasks() { destroy_all(); }

void GeneratedTasks::destroy_all() {
  for (const auto& [entry, task] : tasks_) {
    if (task.destroy != nullptr) task.destroy(task.context);
  }
}

ng_task GeneratedTasks::take(size_t entry) {
  const auto at = tasks_.find(entry);
  NG_CHECK(at != tasks_.end(), "task ", entry, " was not generated");
  const ng_task task = at->second;
  tasks_.erase(at);
  return task;
}

}  // namespace npugraph::compiler
