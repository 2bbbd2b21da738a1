// SPDX-License-Identifier: Apache-2.0
#include "compiler/runnable.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "base/counters.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "codegen/jit/builds.h"
#include "compiler/defect_report.h"
#include "loop/simplify.h"
#include "loop/text.h"
#include "program/parts.h"

namespace npugraph::compiler {

using program::Task;
using program::TaskKind;

namespace {

// Texts of kernels that could not be made, in this process.
class Failures {
 public:
  bool contains(const std::string& text) {
    const std::lock_guard lock(mutex_);
    return texts_.contains(text);
  }
  void add(const std::string& text) {
    const std::lock_guard lock(mutex_);
    texts_.insert(text);
  }

 private:
  std::mutex mutex_;
  std::set<std::string> texts_;
};

Failures& failures() {
  static auto* instance = new Failures;
  return *instance;
}

// The text of a loop for these scalars.
std::string specialised_text(const Task& task, std::span<const ng_scalar> scalars) {
  const loop::Kernel kernel = loop::parse(std::get<std::string>(task.args.front()), task.name);
  std::vector<std::optional<int64_t>> values;
  for (size_t i = 0; i < kernel.scalars.size(); ++i)
    values.push_back(kernel.scalars[i].kind == ScalarKind::kFloat ? std::nullopt : std::optional(scalars[i].i));
  return loop::print(loop::specialised(kernel, values));
}

// The task with its loops specialised for these scalars; nullopt if it has no loop to specialise. It keeps its scalars.
std::optional<Task> specialised(const Task& task, std::span<const ng_scalar> scalars) {
  if (task.kind == TaskKind::kLoop) {
    Task made = task;
    made.args.front() = specialised_text(task, scalars);
    return made;
  }
  if (!program::has_parts(task.kind)) return {};
  program::Parts parts = program::parts_of(task);
  bool any = false;
  for (Task& part : parts.tasks) {
    const auto own = scalars.first(part.scalars.size());
    scalars = scalars.subspan(own.size());
    if (part.kind != TaskKind::kLoop || own.empty()) continue;
    part.args.front() = specialised_text(part, own);
    any = true;
  }
  if (!any) return {};
  Task made = task.kind == TaskKind::kGroup
                  ? program::group(parts.tasks, parts.nanoseconds)
                  : program::super_kernel(parts.tasks, std::get<std::string>(task.args.front()), parts.workers);
  made.may_share = task.may_share;
  return made;
}

// All texts from which code is generated for a task.
std::string generated_text(const Task& task) {
  std::string text;
  for (const Attr& arg : task.args) {
    if (const auto* part = std::get_if<std::string>(&arg)) text += *part;
  }
  return text;
}

}  // namespace

StaticKernels::StaticKernels(std::shared_ptr<const program::Program> program, StaticKernelRequest request,
                             runtime::MakeTask make_task)
    : program_(std::move(program)), request_(std::move(request)), make_task_(std::move(make_task)) {}

runtime::Specialise StaticKernels::for_symbols(std::span<const Scalar> symbols) {
  const std::string key = key_of(symbols);
  if (!is_wanted(symbols)) {
    const std::lock_guard lock(mutex_);
    sizes_of(key).excluded = true;
    return nullptr;
  }
  return [this, key](const Task& task, std::span<const ng_scalar> scalars) { return make(task, scalars, key); };
}

std::optional<ng_task> StaticKernels::make(const Task& task, std::span<const ng_scalar> scalars,
                                           const std::string& key) {
  const codegen::WithBuildRules rules({.reads_disk = request_.on_disk, .one_builder = true});
  const codegen::BuildCount builds;
  // Failures are kept for the sizes and the text before specialisation, because making the specialised text may fail.
  const std::string text = cat(key, "\n", generated_text(task));
  std::optional<ng_task> made;
  bool failed = failures().contains(text);
  try {
    if (!failed) {
      const std::optional<Task> own = specialised(task, scalars);
      if (!own) return {};
      made = make_task_(*program_, *own);
    }
  } catch (const std::exception& error) {
    failed = true;
    failures().add(text);
    const std::string message = cat("the static kernel of ", task.name, " for ", key,
                                    " could not be made, so the task keeps its code for all sizes: ", error.what());
    log_warning(report_text(message, "Its text", text, "static-kernel", environment().report_dir));
  }
  const std::lock_guard lock(mutex_);
  counts_.builds += builds.builds();
  counts_.loads += builds.loads();
  count(key, failed);
  return made;
}

void StaticKernels::count(const std::string& key, bool failed) {
  ++(failed ? counts_.failures : counts_.tasks);
  ++(failed ? sizes_of(key).failures : sizes_of(key).tasks);
  process_counters().at(failed ? "static_kernel_failures" : "static_kernels").add();
}

StaticKernels::Sizes& StaticKernels::sizes_of(const std::string& key) {
  const auto found = std::ranges::find(sizes_, key, &Sizes::key);
  return found != sizes_.end() ? *found : sizes_.emplace_back(Sizes{.key = key});
}

StaticKernels::Counts StaticKernels::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::vector<std::string> StaticKernels::lines() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> lines;
  for (const Sizes& sizes : sizes_) {
    std::string line = cat(sizes.key, ": ");
    if (sizes.excluded)
      line += "not among the values that the options name";
    else if (sizes.tasks == 1)
      line += "1 task has code of its own";
    else
      line += cat(sizes.tasks == 0 ? "no" : std::to_string(sizes.tasks), " tasks have code of their own");
    if (sizes.failures > 0) line += cat(", ", sizes.failures, " could not be made");
    lines.push_back(std::move(line));
  }
  return lines;
}

// StaticKernelRequest::symbol counts only the symbols of inputs, in the order of the Program.
bool StaticKernels::is_wanted(std::span<const Scalar> symbols) const {
  if (!request_.values) return true;
  int64_t index = 0;
  for (size_t s = 0; s < symbols.size(); ++s) {
    if (program_->symbols[s].task != program::kNone || index++ != request_.symbol) continue;
    return std::ranges::count(*request_.values, symbols[s].as_int()) > 0;
  }
  return false;
}

std::string StaticKernels::key_of(std::span<const Scalar> symbols) const {
  std::string key;
  for (size_t s = 0; s < symbols.size(); ++s) {
    const program::Symbol& symbol = program_->symbols[s];
    if (symbol.task != program::kNone) continue;
    key += cat(key.empty() ? "" : ", ", symbol.name, "=", Expr::constant(symbols[s]).str());
  }
  return key.empty() ? "constant sizes" : key;
}

Runnable make_runnable(std::shared_ptr<const program::Program> program, runtime::Host& host, const RunRequest& request,
                       const runtime::MakeTask& make_task, GeneratedTasks* generated) {
  runtime::Hooks hooks{.counts_by_name = true, .specialise = {}};
  Runnable runnable;
  if (request.static_kernels.enabled) {
    runnable.static_kernels = std::make_shared<StaticKernels>(program, request.static_kernels, make_task);
    hooks.specialise = [kernels = runnable.static_kernels](auto symbols) { return kernels->for_symbols(symbols); };
  }
  const auto take_or_make = [&](const program::Program& all, const program::Task& task) {
    if (generated == nullptr || !program::is_generated(task.kind)) return make_task(all, task);
    return generated->take(static_cast<size_t>(&task - all.tasks.data()));
  };
  const std::string name = program->name;
  runnable.executable = std::make_shared<runtime::Executable>(std::move(program), host, take_or_make, request.calls,
                                                              name, std::move(hooks));
  return runnable;
}

}  // namespace npugraph::compiler
