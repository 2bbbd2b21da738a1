// SPDX-License-Identifier: Apache-2.0
#include "lower/super_kernels.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "base/error.h"
#include "ops/table.h"
#include "program/parts.h"

namespace npugraph::lower {

using program::Task;

namespace {

bool marks(const Task& task, ir::Trait trait) {
  const ir::Op* op = task.operands.empty() ? ops::registry().find(task.name) : nullptr;
  return op != nullptr && op->is(trait);
}
bool begins(const Task& task) { return marks(task, ir::Trait::kBeginsScope); }
bool ends(const Task& task) { return marks(task, ir::Trait::kEndsScope); }

// All marks without a name belong to one scope.
std::string scope_of(const Task& mark) {
  const auto* name = mark.args.empty() ? nullptr : std::get_if<std::string>(&mark.args.front());
  return name == nullptr ? "unnamed" : *name;
}

class Merging {
 public:
  Merging(program::Program& program, std::vector<TaskNote>& notes, MergeOptions options)
      : program_(program), notes_(notes), options_(options), moved_to_(program.tasks.size(), program::kNone) {}

  std::vector<ScopeResult> run() && {
    for (size_t i = 0; i < program_.tasks.size(); ++i) visit(i);
    finish_run();
    program_.tasks = std::move(made_);
    notes_ = std::move(made_notes_);
    for (program::Symbol& symbol : program_.symbols) {
      if (symbol.task != program::kNone) symbol.task = moved_to_[symbol.task];
    }
    for (Task& task : program_.tasks) move_waits(task);
    return std::move(results_);
  }

 private:
  void visit(size_t i) {
    Task& task = program_.tasks[i];
    if (begins(task)) {
      if (options_.merges) open_.push_back(scope_of(task));
      return;
    }
    if (ends(task)) {
      close(scope_of(task));
      return;
    }
    ScopeResult* scope = open_.empty() || open_.back().empty() ? nullptr : &result_of(open_.back());
    const bool joins = scope != nullptr && can_be_part(task);
    if (scope != nullptr) ++scope->tasks;
    if (scope != nullptr && !joins) {
      ++scope->left;
      scope->cuts.push_back(cat(task.name, task.source.empty() ? "" : " at ", task.source));
    }
    const bool continues = joins && !run_.empty() && run_scope_ == scope->scope && run_.front().stream == task.stream &&
                           run_.front().limits == task.limits;
    if (!continues) finish_run();
    if (!joins) return keep(i);
    run_scope_ = scope->scope;
    moved_to_[i] = static_cast<int32_t>(made_.size());
    run_.push_back(std::move(task));
    run_notes_.push_back(notes_[i]);
  }

  // Closes the innermost scope of this name. Front ends ensure that there is one.
  void close(const std::string& scope) {
    const auto found = std::find(open_.rbegin(), open_.rend(), scope);
    if (found != open_.rend()) open_.erase(std::next(found).base());
  }

  ScopeResult& result_of(const std::string& scope) {
    const auto found = std::ranges::find(results_, scope, &ScopeResult::scope);
    return found != results_.end() ? *found : results_.emplace_back(ScopeResult{.scope = scope});
  }

  // Renumbers the tasks that `task` waits for. Several that became parts of one task are one wait.
  void move_waits(Task& task) const {
    for (int32_t& other : task.waits) other = moved_to_[other];
    std::ranges::sort(task.waits);
    const auto repeated = std::ranges::unique(task.waits);
    task.waits.erase(repeated.begin(), repeated.end());
  }

  void keep(size_t i) {
    moved_to_[i] = static_cast<int32_t>(made_.size());
    made_.push_back(std::move(program_.tasks[i]));
    made_notes_.push_back(notes_[i]);
  }

  void finish_run() {
    if (run_.empty()) return;
    TaskNote note = run_notes_.back();
    note.saved_bytes = note.operations = 0;
    for (const TaskNote& part : run_notes_) {
      note.saved_bytes = note.saved_bytes + part.saved_bytes;
      note.operations = note.operations + part.operations;
    }
    made_notes_.push_back(note);
    if (run_.size() == 1) {
      made_.push_back(std::move(run_.front()));
      ++result_of(run_scope_).left;
    } else {
      made_.push_back(program::super_kernel(run_, run_scope_, options_.workers));
      ++result_of(run_scope_).super_kernels;
    }
    run_.clear();
    run_notes_.clear();
  }

  program::Program& program_;
  std::vector<TaskNote>& notes_;
  const MergeOptions options_;
  std::vector<int32_t> moved_to_;  // per task of program_: its index in made_; kNone for marks
  std::vector<std::string> open_;  // scopes, the innermost last
  std::string run_scope_;
  std::vector<Task> run_;
  std::vector<TaskNote> run_notes_;
  std::vector<Task> made_;
  std::vector<TaskNote> made_notes_;
  std::vector<ScopeResult> results_;
};

}  // namespace

bool is_scope_mark(const Task& task) { return begins(task) || ends(task); }

std::vector<ScopeResult> merge_scopes(program::Program& program, std::vector<TaskNote>& notes, MergeOptions options) {
  return Merging(program, notes, options).run();
}

}  // namespace npugraph::lower
