// SPDX-License-Identifier: Apache-2.0
#include "lower/groups.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "lower/clusters/score.h"
#include "program/parts.h"
#include "program/program.h"
#include "program/window_facts.h"
#include "target/costs.h"

namespace npugraph::lower {
namespace {

using program::Access;
using program::BufferClass;
using program::Operand;
using program::Task;
using program::TaskKind;
using program::text_of;

constexpr double kMostNs = 50'000;       // of a part in one thread
constexpr int64_t kMostBytes = 1 << 20;  // that a group writes: all its results are alive at once
constexpr size_t kMostGroupParts = 64;
constexpr size_t kMostPassed = 256;  // tasks that a part moves up over, each of which makes its results live longer
constexpr double kLeastSavedNs = 300;
constexpr double kInstructionsOfOperation = 4;  // of an elementwise operator, on the average
constexpr double kStartNs = 100;                // of any task
constexpr int kMostRounds = 4;

// A difference of two sizes can be negative at usual sizes.
int64_t operand_bytes(const program::Program& program, const Operand& operand) {
  Expr bytes = size_of(operand.dtype);
  for (const program::Dim& size : operand.sizes) bytes = bytes * program.expr(size);
  return std::max<int64_t>(at_usual_sizes(bytes), 0);
}

// About how long one thread takes for a task, at usual sizes.
double time_alone(const program::Program& program, const Task& task, const TaskNote& note,
                  const target::Target& target) {
  const target::Costs costs = target::costs_of(target);
  const auto operations = std::max<int64_t>(at_usual_sizes(note.operations), 0);
  const auto vectors = static_cast<double>(operations) / target.lanes(DType::kF32);
  const double compute = program::has(task.kind, program::KindTrait::kProduct)
                             ? vectors / 2 * costs.multiply
                             : vectors * kInstructionsOfOperation * costs.instruction;
  double bytes = 0;
  for (const Operand& operand : task.operands) bytes += static_cast<double>(operand_bytes(program, operand));
  return kStartNs + std::max(compute, bytes * std::max(target::byte_cost(target, bytes), costs.l2_byte));
}

// What the tasks of an entry take together, in nanoseconds.
struct EntryLoad {
  double apart = 0;     // of two threads, if the tasks run one after the other
  double sum = 0;       // of one thread
  double longest = 0;   // of one thread
  int64_t written = 0;  // bytes

  double together(double region) const { return std::max(sum / 2, longest) + region; }
  double saved(double region) const { return apart - together(region); }
};

// Tasks at one place of the new order.
struct Entry {
  std::vector<size_t> tasks;
  EntryLoad load;
  bool is_open = false;  // more tasks may join
};

// An access of a task to a buffer.
struct Touch {
  size_t entry;
  const Operand* operand;
};

class Grouper {
 public:
  Grouper(const program::Program& program, const std::vector<TaskNote>& notes, const target::Target& target)
      : program_(program), notes_(notes), region_(target::costs_of(target).region), touches_(program.buffers.size()) {
    for (size_t i = 0; i < program.tasks.size(); ++i) {
      times_.push_back(time_alone(program, program.tasks[i], notes[i], target));
      written_.push_back(written_by(program.tasks[i]));
    }
  }

  // Puts tasks together as far as that is legal, those in `apart` excepted.
  std::vector<Entry> entries(const std::set<size_t>& apart) {
    entries_.clear();
    for (std::vector<Touch>& touches : touches_) touches.clear();
    floor_ = floor_of_writers_ = 0;
    for (size_t i = 0; i < program_.tasks.size(); ++i) place(i, is_candidate(i) && !apart.contains(i));
    return std::move(entries_);
  }

  // score_fusion(): nanoseconds that the tasks of an entry save together.
  double saved(const Entry& entry) const { return entry.load.saved(region_); }
  // Why the tasks of an entry stay apart; empty if they do not.
  const char* objection(const Entry& entry) const {
    return saved(entry) < kLeastSavedNs ? "starting the threads once saves too little" : "";
  }
  double time(size_t task) const { return times_[task]; }

 private:
  bool is_candidate(size_t i) const {
    const Task& task = program_.tasks[i];
    return program::is_generated(task.kind) && program::can_be_part(task) && task.limits == CoreLimits{} &&
           !notes_[i].may_fail && times_[i] <= kMostNs && written_[i] <= kMostBytes;
  }

  int64_t written_by(const Task& task) const {
    int64_t bytes = 0;
    for (const Operand& operand : task.operands)
      if (operand.access != Access::kRead) bytes += operand_bytes(program_, operand);
    return bytes;
  }

  // Whether the caller sees what the task writes even if the run fails later.
  bool writes_for_caller(const Task& task) const {
    return std::ranges::any_of(task.operands, [&](const Operand& operand) {
      const BufferClass cls = program_.buffers[operand.buffer].cls;
      return operand.access != Access::kRead && (cls == BufferClass::kInput || cls == BufferClass::kParameter);
    });
  }

  // The first entry that the task may join or precede: behind all entries that it depends on.
  size_t earliest(const Task& task) const {
    size_t first = writes_for_caller(task) ? std::max(floor_, floor_of_writers_) : floor_;
    for (const Operand& operand : task.operands) {
      for (const Touch& other : touches_[operand.buffer]) {
        const bool writes = operand.access != Access::kRead || other.operand->access != Access::kRead;
        if (writes && other.entry >= first && !program::are_disjoint(operand, *other.operand)) first = other.entry + 1;
      }
    }
    return first;
  }

  // can_fuse(): whether the task may become part of an entry that it does not depend on.
  bool can_join(const Entry& entry, size_t i) const {
    return entry.is_open && entry.tasks.size() < kMostGroupParts && entry.load.written + written_[i] <= kMostBytes;
  }

  // The entry that gains most by the task, equal tasks and then the earliest first; entries_.size() if there is none.
  size_t best_entry(size_t i) const {
    const Task& task = program_.tasks[i];
    const size_t end = entries_.size();
    size_t best = end;
    std::pair<bool, double> best_score;
    for (size_t e = std::max(earliest(task), end - std::min(end, kMostPassed)); e < end; ++e) {
      if (!can_join(entries_[e], i)) continue;
      const Task& first = program_.tasks[entries_[e].tasks.front()];
      const bool equal = first.kind == task.kind && text_of(first) != nullptr && text_of(task) != nullptr &&
                         *text_of(first) == *text_of(task);
      const EntryLoad& load = entries_[e].load;
      const std::pair score(equal, with(load, i).saved(region_) - load.saved(region_));
      if (best == end || score > best_score) best = e, best_score = score;
    }
    return best;
  }

  EntryLoad with(const EntryLoad& load, size_t i) const {
    const double alone = times_[i];
    return {.apart = load.apart + std::min(alone, alone / 2 + region_),
            .sum = load.sum + alone,
            .longest = std::max(load.longest, alone),
            .written = load.written + written_[i]};
  }

  void place(size_t i, bool may_join) {
    const Task& task = program_.tasks[i];
    const size_t at = may_join ? best_entry(i) : entries_.size();
    if (at == entries_.size()) entries_.push_back({.is_open = may_join});
    entries_[at].tasks.push_back(i);
    entries_[at].load = with(entries_[at].load, i);
    for (const Operand& operand : task.operands) touches_[operand.buffer].push_back({at, &operand});
    const bool is_of_host = task.kind != TaskKind::kKernel && !program::is_generated(task.kind);
    if (is_of_host || !task.defines.empty()) floor_ = entries_.size();
    if (notes_[i].may_fail) floor_of_writers_ = entries_.size();
  }

  const program::Program& program_;
  const std::vector<TaskNote>& notes_;
  const double region_;
  std::vector<double> times_;     // per task
  std::vector<int64_t> written_;  // bytes per task
  std::vector<Entry> entries_;
  std::vector<std::vector<Touch>> touches_;  // per buffer
  size_t floor_ = 0;                         // no task moves before this entry
  size_t floor_of_writers_ = 0;              // no task that writes for the caller does
};

bool is_group(const Entry& entry, const Grouper& grouper) {
  return entry.tasks.size() > 1 && *grouper.objection(entry) == '\0';
}

// Puts the tasks of a Program in the order of the entries, those of a group as one task.
void reorder_tasks(program::Program& program, std::vector<TaskNote>& notes, const std::vector<Entry>& entries,
                   const Grouper& grouper) {
  std::vector<Task> tasks;
  std::vector<TaskNote> new_notes;
  std::vector<int32_t> moved_to(program.tasks.size(), program::kNone);
  for (const Entry& entry : entries) {
    const bool joins = is_group(entry, grouper);
    std::vector<Task> parts;
    std::vector<int64_t> times;
    TaskNote note = notes[entry.tasks.front()];
    note.saved_bytes = note.operations = 0;
    for (const size_t i : entry.tasks) {
      moved_to[i] = static_cast<int32_t>(tasks.size());
      if (!joins) {
        tasks.push_back(std::move(program.tasks[i]));
        new_notes.push_back(notes[i]);
        continue;
      }
      parts.push_back(std::move(program.tasks[i]));
      times.push_back(static_cast<int64_t>(grouper.time(i)));
      note.saved_bytes = note.saved_bytes + notes[i].saved_bytes;
      note.operations = note.operations + notes[i].operations;
    }
    if (!joins) continue;
    tasks.push_back(program::group(parts, times));
    new_notes.push_back(note);
  }
  for (program::Symbol& symbol : program.symbols) {
    if (symbol.task != program::kNone) symbol.task = moved_to[symbol.task];
  }
  program.tasks = std::move(tasks);
  notes = std::move(new_notes);
}

std::string names_of(const program::Program& program, const Entry& entry) {
  std::vector<Task> parts;
  for (const size_t i : entry.tasks) parts.push_back(program.tasks[i]);
  return program::label_of(parts);
}

}  // namespace

std::vector<Grouping> group_tasks(program::Program& program, std::vector<TaskNote>& notes,
                                  const target::Target& target) {
  if (program::has_streams(program)) return {};  // tasks of different streams already run at the same time
  Grouper grouper(program, notes, target);
  std::set<size_t> apart;
  std::vector<Grouping> refused;
  std::vector<Entry> entries;
  // A task that stays apart keeps its place, so the others are placed again.
  for (int round = 0; round < kMostRounds; ++round) {
    entries = grouper.entries(apart);
    const size_t before = apart.size();
    for (const Entry& entry : entries) {
      if (entry.tasks.size() == 1 || is_group(entry, grouper)) continue;
      apart.insert(entry.tasks.begin(), entry.tasks.end());
      refused.push_back({names_of(program, entry), grouper.saved(entry), grouper.objection(entry)});
    }
    if (apart.size() == before) break;
  }
  std::vector<Grouping> made;
  for (const Entry& entry : entries) {
    if (is_group(entry, grouper)) made.push_back({names_of(program, entry), grouper.saved(entry)});
  }
  if (!made.empty()) reorder_tasks(program, notes, entries, grouper);
  made.insert(made.end(), refused.begin(), refused.end());
  return made;
}

}  // namespace npugraph::lower
