// SPDX-License-Identifier: Apache-2.0
#include "program/task_order.h"

#include <algorithm>
#include <unordered_map>

namespace npugraph::program {

TaskOrder::TaskOrder(const Program& program) : program_(program) {
  std::unordered_map<int32_t, int32_t> streams;
  for (const Task& task : program.tasks) {
    stream_.push_back(streams.try_emplace(task.stream, static_cast<int32_t>(streams.size())).first->second);
  }
  std::vector<int32_t> last_of_stream(streams.size(), kNone);
  for (int32_t t = 0; t < static_cast<int32_t>(program.tasks.size()); ++t) {
    std::vector<int32_t> done(streams.size(), 0);
    const auto add = [&](int32_t other) {
      for (size_t s = 0; s < done.size(); ++s) done[s] = std::max(done[s], done_[other][s]);
      done[stream_[other]] = std::max(done[stream_[other]], other + 1);
    };
    for (const int32_t other : program.tasks[t].waits) add(other);
    if (last_of_stream[stream_[t]] != kNone) add(last_of_stream[stream_[t]]);
    last_of_stream[stream_[t]] = t;
    done_.push_back(std::move(done));
  }
}

bool TaskOrder::follows(const std::vector<int32_t>& tasks, int32_t task) const {
  return std::ranges::all_of(tasks, [&](int32_t other) { return other == task || precedes(other, task); });
}

int32_t TaskOrder::first_after(const std::vector<int32_t>& tasks) const {
  const auto count = static_cast<int32_t>(stream_.size());
  int32_t task = tasks.empty() ? 0 : std::ranges::max(tasks);
  while (task < count && !follows(tasks, task)) ++task;
  return task;
}

int32_t TaskOrder::last_beside(const std::vector<int32_t>& tasks) const {
  const int32_t last = std::ranges::max(tasks);
  int32_t task = static_cast<int32_t>(stream_.size()) - 1;
  while (task > last && follows(tasks, task)) --task;
  return task;
}

std::vector<std::vector<int32_t>> TaskOrder::last_touches() const {
  std::vector<std::vector<int32_t>> touches(program_.buffers.size());
  for (int32_t t = 0; t < static_cast<int32_t>(stream_.size()); ++t) {
    for (const Operand& operand : program_.tasks[t].operands) {
      auto& of_buffer = touches[operand.buffer];
      const auto same = std::ranges::find_if(of_buffer, [&](int32_t other) { return stream_[other] == stream_[t]; });
      same == of_buffer.end() ? of_buffer.push_back(t) : void(*same = t);
    }
  }
  return touches;
}

}  // namespace npugraph::program
