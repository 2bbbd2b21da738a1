// SPDX-License-Identifier: Apache-2.0
#include "runtime/watch/report.h"

#include <algorithm>
#include <functional>

#include "tensor/shape.h"

namespace npugraph::runtime {

using program::Access;
using program::BufferClass;
using program::kNone;

namespace {

// Bytes of the distinct elements of a window. Assumes that its elements overlap in broadcast dimensions only.
int64_t window_bytes(const Blueprint& blueprint, const Sizes& sizes, int32_t w) {
  int64_t elements = 1;
  for (size_t d = 0; d < sizes.sizes(w).size(); ++d) {
    const bool broadcast = sizes.strides(w)[d] == 0 && sizes.sizes(w)[d] != 0;
    elements *= broadcast ? 1 : sizes.sizes(w)[d];
  }
  return elements * size_of(blueprint.windows[w].operand->dtype);
}

int64_t buffer_bytes(const Blueprint& blueprint, const Sizes& sizes, int32_t b) {
  const program::Buffer& buffer = blueprint.program->buffers[b];
  if (buffer.cls != BufferClass::kHeap || buffer.preallocated) return sizes.bytes(b);
  if (buffer.opaque) return 0;
  int64_t bytes = 0;
  for (const int32_t w : blueprint.windows_of_buffer[b]) {
    const int64_t extent = extent_bytes(sizes.sizes(w), sizes.strides(w), blueprint.windows[w].operand->dtype);
    bytes = std::max(bytes, extent == 0 ? 0 : sizes.offset(w) + extent);
  }
  return bytes;
}

int64_t count_steps(const Blueprint& blueprint) {
  const auto& tasks = blueprint.steps.of_task;
  return tasks.empty() ? 0 : tasks.back().last + 1;
}

// The task to which a step belongs; nullopt for the step at which results are handed out, which follows the last one.
std::optional<int32_t> task_at(const Blueprint& blueprint, int64_t step) {
  const auto& tasks = blueprint.steps.of_task;
  const auto task = std::ranges::find_if(tasks, [&](const auto& steps) { return step <= steps.last; });
  if (task == tasks.end()) return std::nullopt;
  return static_cast<int32_t>(task - tasks.begin());
}

// The life of a buffer in steps, from the first one to the last one, inclusive.
struct LifeInSteps {
  int32_t buffer = 0;
  int64_t bytes = 0;
  int64_t first = 0;
  int64_t last = 0;
};

struct PeakStep {
  int64_t step = 0;
  int64_t bytes = 0;  // 0: nothing is ever alive
};

// The lives of the arena, heap and output buffers for which `wanted` is true. Only arena buffers can begin
// or end within a task.
template <typename Wanted>
std::vector<LifeInSteps> steps_alive(const Blueprint& blueprint, const Sizes& sizes, Wanted wanted) {
  const program::Program& program = *blueprint.program;
  const auto& [of_task, of_buffer] = blueprint.steps;
  const int64_t end = count_steps(blueprint);
  std::vector<bool> returned(program.buffers.size());
  for (const OutputPlan& output : blueprint.outputs)
    if (output.window != kNone) returned[blueprint.windows[output.window].operand->buffer] = true;
  std::vector<LifeInSteps> lives;
  for (int32_t b = 0; b < std::ssize(program.buffers); ++b) {
    const program::Buffer& buffer = program.buffers[b];
    const bool lasts = buffer.cls == BufferClass::kOutput || returned[b] || buffer.last_task == kNone;
    const bool arena = buffer.cls == BufferClass::kArena;
    const bool at_work =
        arena ? buffer.first_task != kNone : (buffer.cls == BufferClass::kOutput || buffer.cls == BufferClass::kHeap);
    if (!at_work || !wanted(buffer)) continue;
    LifeInSteps life{.buffer = b, .bytes = buffer_bytes(blueprint, sizes, b), .first = end, .last = end};
    if (buffer.first_task != kNone) life.first = arena ? of_buffer[b].first : of_task[buffer.first_task].first;
    if (!lasts) life.last = arena ? of_buffer[b].last : of_task[buffer.last_task].last;
    lives.push_back(life);
  }
  return lives;
}

std::vector<LifeInSteps> steps_alive(const Blueprint& blueprint, const Sizes& sizes) {
  return steps_alive(blueprint, sizes, [](const program::Buffer&) { return true; });
}

// The first step at which the most bytes are alive.
PeakStep peak_of(const std::vector<LifeInSteps>& lives, int64_t steps) {
  std::vector<int64_t> change(static_cast<size_t>(steps) + 2, 0);  // of the live bytes before each step
  for (const LifeInSteps& life : lives) {
    change[static_cast<size_t>(life.first)] += life.bytes;
    change[static_cast<size_t>(life.last) + 1] -= life.bytes;
  }
  PeakStep peak;
  int64_t live = 0;
  for (int64_t step = 0; step <= steps; ++step) {
    live += change[static_cast<size_t>(step)];
    if (live > peak.bytes) peak = {.step = step, .bytes = live};
  }
  return peak;
}

int64_t length(const TimeSpan& span) { return span.end_ns - span.begin_ns; }

}  // namespace

std::vector<TaskTraffic> task_traffic(const Blueprint& blueprint, const Sizes& sizes) {
  std::vector<TaskTraffic> traffic(blueprint.program->tasks.size());
  for (int32_t w = 0; w < blueprint.first_window.back(); ++w) {
    const Window& window = blueprint.windows[w];
    if (blueprint.program->buffers[window.operand->buffer].opaque) continue;
    const int64_t bytes = window_bytes(blueprint, sizes, w);
    if (window.operand->access != Access::kWrite) traffic[window.task].bytes_read += bytes;
    if (window.operand->access == Access::kRead) continue;
    traffic[window.task].bytes_written += bytes;
    if (window.operand->copied) traffic[window.task].bytes_copied += bytes;
  }
  return traffic;
}

std::vector<TimedRun> by_length(std::vector<TimedRun> runs) {
  std::ranges::stable_sort(runs, std::less(), [](const TimedRun& run) { return length(run.run); });
  return runs;
}

void add_times(const std::vector<TimedRun>& runs, std::vector<TaskTraffic>& traffic) {
  const TimedRun middle = by_length(runs)[(runs.size() - 1) / 2];  // of two, the one that was disturbed less
  const int64_t first = std::ranges::min(middle.tasks, std::less(), &TimeSpan::begin_ns).begin_ns;
  for (size_t t = 0; t < traffic.size(); ++t) {
    std::vector<int64_t> times;
    for (const TimedRun& run : runs) times.push_back(length(run.tasks[t]));
    std::ranges::sort(times);
    traffic[t].nanoseconds = times[(times.size() - 1) / 2];
    traffic[t].least_nanoseconds = times.front();
    traffic[t].most_nanoseconds = times.back();
    traffic[t].begin_nanoseconds = middle.tasks[t].begin_ns - first;
  }
}

int64_t peak_heap_bytes(const Blueprint& blueprint, const Sizes& sizes) {
  return peak_of(steps_alive(blueprint, sizes, [](const program::Buffer& b) { return b.cls != BufferClass::kArena; }),
                 count_steps(blueprint))
      .bytes;
}

std::vector<BufferLife> lives_of(const Blueprint& blueprint, const Sizes& sizes) {
  std::vector<BufferLife> lives;
  for (const LifeInSteps& life : steps_alive(blueprint, sizes)) {
    lives.push_back({.buffer = life.buffer,
                     .bytes = life.bytes,
                     .first = task_at(blueprint, life.first),
                     .last = task_at(blueprint, life.last),
                     .offset = std::nullopt});
  }
  return lives;
}

std::optional<LivePeak> live_peak_of(const Blueprint& blueprint, const Sizes& sizes) {
  const std::vector<LifeInSteps> lives = steps_alive(blueprint, sizes);
  const auto [step, bytes] = peak_of(lives, count_steps(blueprint));
  if (bytes == 0) return std::nullopt;
  LivePeak peak{.task = task_at(blueprint, step), .bytes = bytes, .buffers = {}};
  for (const LifeInSteps& life : lives)
    if (life.first <= step && step <= life.last) peak.buffers.push_back({life.buffer, life.bytes});
  std::ranges::stable_sort(peak.buffers, std::greater(), &LiveBuffer::bytes);
  return peak;
}

int64_t copied_bytes(const Blueprint& blueprint, const Sizes& sizes) {
  int64_t bytes = 0;
  for (int32_t w = 0; w < blueprint.first_window.back(); ++w) {
    const program::Operand& operand = *blueprint.windows[w].operand;
    const bool opaque = blueprint.program->buffers[operand.buffer].opaque;
    if (operand.copied && !opaque) bytes += window_bytes(blueprint, sizes, w);
  }
  return bytes;
}

}  // namespace npugraph::runtime
