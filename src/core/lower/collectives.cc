// SPDX-License-Identifier: Apache-2.0
#include "lower/collectives.h"

#include <algorithm>
#include <iterator>

namespace npugraph::lower {
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
