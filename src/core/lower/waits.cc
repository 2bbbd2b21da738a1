// SPDX-License-Identifier: Apache-2.0
#include "lower/waits.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <vector>

#include "lower/super_kernels.h"

namespace npugraph::lower {

namespace {

using program::kNone;

// Whether it is visible from outside when the operator runs. Records of program events are excepted: an event belongs
// to one stream and says nothing about others.
bool is_noticed(const ir::Op& op) {
  constexpr ir::Traits kNoticed = ir::Trait::kRandom | ir::Trait::kSideEffect | ir::Trait::kOpaque;
  return (op.traits & kNoticed) != 0 && op.name != program::kEventTask;
}

// The last task of each section among the tasks that were visited.
class Ends {
 public:
  explicit Ends(const std::vector<ir::Section>& sections)
      : sections_(sections), last_task_(sections.size(), kNone), previous_(sections.size(), kNone) {
    std::unordered_map<int32_t, int32_t> last_of_stream;
    for (int32_t id = 0; id < static_cast<int32_t>(sections.size()); ++id) {
      const auto [last, is_first] = last_of_stream.try_emplace(sections[id].stream, id);
      if (!is_first) previous_[id] = last->second;
      last->second = id;
    }
  }

  void add(int32_t section, int32_t task) { last_task_[section] = task; }

  // Adds the tasks that must be done for all of `section` to be done. For a section without tasks, these are the tasks
  // that it waits for.
  void collect(int32_t section, std::vector<int32_t>& tasks) const {
    if (last_task_[section] != kNone) {
      tasks.push_back(last_task_[section]);  // it waits for the tasks before it
      return;
    }
    for (const int32_t other : sections_[section].after) collect(other, tasks);
    if (previous_[section] != kNone) collect(previous_[section], tasks);
  }

  // The tasks that the first task of `section` waits for, besides those before it on its stream.
  std::vector<int32_t> waits(int32_t section) const {
    std::vector<int32_t> tasks;
    for (int32_t id = section; id != kNone; id = previous_[id]) {
      if (last_task_[id] != kNone) break;
      for (const int32_t other : sections_[id].after) collect(other, tasks);
    }
    return tasks;
  }

  bool has_begun(int32_t section) const { return last_task_[section] != kNone; }

 private:
  const std::vector<ir::Section>& sections_;
  std::vector<int32_t> last_task_;  // per section
  std::vector<int32_t> previous_;   // per section: the one before it on its stream
};

}  // namespace

void resolve_sections(program::Program& program, const ir::Graph& graph, std::span<const ir::NodeId> nodes) {
  if (graph.sections.size() == 1 && graph.sections.front() == ir::Section{}) return;
  Ends ends(graph.sections);
  int32_t last_noticed = kNone;
  for (int32_t t = 0; t < static_cast<int32_t>(program.tasks.size()); ++t) {
    program::Task& task = program.tasks[t];
    const int32_t section = task.stream;
    task.stream = graph.sections[section].stream;
    task.limits = graph.sections[section].limits;
    if (is_scope_mark(task)) continue;  // merge_scopes() removes it
    if (!ends.has_begun(section)) task.waits = ends.waits(section);
    ends.add(section, t);
    if (nodes[t] != ir::kNone && is_noticed(*graph.node(nodes[t]).op)) {
      if (last_noticed != kNone) task.waits.push_back(last_noticed);
      last_noticed = t;
    }
    const auto is_earlier_here = [&](int32_t other) { return program.tasks[other].stream == task.stream; };
    std::erase_if(task.waits, is_earlier_here);
    std::ranges::sort(task.waits);
    const auto repeated = std::ranges::unique(task.waits);
    task.waits.erase(repeated.begin(), repeated.end());
  }
}

namespace {

using program::Access;
using program::BufferClass;
using program::Operand;
using program::Task;
using program::TaskKind;

bool has_effects(const program::Program& program, const Task& task) {
  if (program::is_callable(task.kind)) return true;
  const auto is_written = [](const Operand& operand) { return operand.access != Access::kRead; };
  const auto is_input = [&](const Operand& operand) {
    const BufferClass cls = program.buffers[operand.buffer].cls;
    return is_written(operand) && (cls == BufferClass::kInput || cls == BufferClass::kParameter);
  };
  return std::ranges::none_of(task.operands, is_written) || std::ranges::any_of(task.operands, is_input);
}

bool touches(const Task& next, const Task& wait) {
  return std::ranges::any_of(wait.operands, [&](const Operand& under_way) {
    return std::ranges::any_of(next.operands, [&](const Operand& operand) {
      const bool written = under_way.access != Access::kRead || operand.access != Access::kRead;
      return written && operand.buffer == under_way.buffer;
    });
  });
}

}  // namespace

Task wait_for(const Task& begin) {
  Task wait;
  wait.kind = TaskKind::kCollective;
  wait.name = program::kWaitTask;
  wait.operands = begin.operands;
  for (Operand& operand : wait.operands) {
    if (operand.access == Access::kWrite) operand.access = Access::kReadWrite;
  }
  wait.operands.back().access = Access::kRead;
  wait.stream = begin.stream;
  wait.origin = begin.origin;
  wait.source = begin.source;
  wait.reason = begin.reason;
  return wait;
}

std::vector<Task> Waits::due(const program::Program& program, const Task& next) {
  if (waits_.empty()) return {};
  const bool all = has_effects(program, next);
  const auto rest =
      std::stable_partition(waits_.begin(), waits_.end(), [&](const Task& wait) { return all || touches(next, wait); });
  std::vector<Task> due(std::move_iterator(waits_.begin()), std::move_iterator(rest));
  waits_.erase(waits_.begin(), rest);
  for (Task& wait : due) wait.stream = next.stream;  // tasks there run after the one that began the collective
  return due;
}

}  // namespace npugraph::lower
