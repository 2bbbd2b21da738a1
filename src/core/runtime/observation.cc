// SPDX-License-Identifier: Apache-2.0
#include "runtime/observation.h"

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "base/trace.h"
#include "runtime/executable_state.h"
#include "runtime/replay.h"
#include "runtime/threads/worker_pool.h"
#include "runtime/watch/report.h"

namespace npugraph::runtime {

const program::Program& Observation::program() const { return *state_.blueprint.program; }

const CaptureRules& Observation::rules() const { return state_.options.rules; }

std::vector<InstanceInfo> Observation::instances() const {
  std::lock_guard lock(state_.mutex);
  std::vector<InstanceInfo> infos;
  for (const auto& entry : state_.cache.entries()) {
    const std::vector<Scalar> symbols = symbols_of(state_.blueprint, entry.key);
    const std::string key = key_text(state_.blueprint, symbols);
    // Calls in parallel have one Instance each for the same sizes; to the user they are one.
    auto info = std::ranges::find(infos, key, &InstanceInfo::key);
    if (info == infos.end()) {
      info = infos.insert(info, InstanceInfo{.key = key});
      for (const int32_t s : state_.blueprint.key_symbols) {
        info->symbols.emplace_back(state_.blueprint.program->symbols[s].name, symbols[s]);
      }
    }
    info->captures += entry.instance->captures;
    info->replays += entry.instance->replays;
  }
  return infos;
}

MemoryInfo Observation::memory() const {
  std::lock_guard lock(state_.mutex);
  MemoryInfo info{.scratch_bytes = state_.scratch_bytes, .bound_bytes_per_call = state_.bound_bytes};
  for (const auto& entry : state_.cache.entries()) {
    if (entry.instance->arena_bytes() < info.arena_bytes) continue;
    info.arena_bytes = entry.instance->arena_bytes();
    info.lower_bound_bytes = entry.instance->lower_bound_bytes();
    info.live_bytes = entry.instance->live_bytes();
  }
  for (const auto& constant : state_.blueprint.program->constants) {
    if (constant.derived) info.derived_constant_bytes += constant.bytes;
  }
  if (state_.latest_symbols) {
    const Sizes sizes = evaluate_all(state_.blueprint, *state_.latest_symbols);
    info.heap_bytes = peak_heap_bytes(state_.blueprint, sizes);
    info.copied_bytes_per_replay = copied_bytes(state_.blueprint, sizes) + state_.undeclared_copies;
  }
  return info;
}

std::optional<LivePeak> Observation::live_peak() const {
  std::lock_guard lock(state_.mutex);
  if (!state_.latest_symbols) return {};
  return live_peak_of(state_.blueprint, evaluate_all(state_.blueprint, *state_.latest_symbols));
}

std::vector<BufferLife> Observation::lives() const {
  std::lock_guard lock(state_.mutex);
  if (!state_.latest_symbols) return {};
  std::vector<BufferLife> lives = lives_of(state_.blueprint, evaluate_all(state_.blueprint, *state_.latest_symbols));
  const std::string key = key_text(state_.blueprint, *state_.latest_symbols);
  const auto is_latest = [&](const InstanceCache::Entry& entry) {
    return key_text(state_.blueprint, entry.instance->sizes().symbols()) == key;
  };
  const auto& entries = state_.cache.entries();
  const auto latest = std::ranges::find_if(entries, is_latest);
  if (latest != entries.end()) latest->instance->add_places(lives);
  return lives;
}

Counters Observation::counters() const {
  std::lock_guard lock(state_.mutex);
  return state_.counters;
}

std::optional<std::vector<Scalar>> Observation::latest_symbols() const {
  std::lock_guard lock(state_.mutex);
  return state_.latest_symbols;
}

std::vector<TaskTraffic> Observation::traffic() const {
  std::lock_guard lock(state_.mutex);
  if (!state_.latest_symbols) return std::vector<TaskTraffic>(state_.blueprint.program->tasks.size());
  auto traffic = task_traffic(state_.blueprint, evaluate_all(state_.blueprint, *state_.latest_symbols));
  if (state_.timed_runs != nullptr) add_times(*state_.timed_runs, traffic);
  return traffic;
}

std::vector<TimedRun> Observation::timed_runs() const {
  std::lock_guard lock(state_.mutex);
  return state_.timed_runs == nullptr ? std::vector<TimedRun>() : by_length(*state_.timed_runs);
}

void note_capture_in_graph(Executable& executable) {
  const std::lock_guard lock(executable.state().mutex);
  executable.state().add(&Counters::captures_in_graphs);
}

double time_tasks(Executable& executable, const BoundInputs& inputs, int64_t times) {
  Executable::State& state = executable.state();
  Executable::State::Call call{.key = key_of(state.blueprint, inputs.all)};
  state.acquire(call, inputs);
  int64_t begin = 0;
  try {
    if (state.bind(call, inputs) != RunStatus::kOk) throw UserError("inputs lie in memory as they must not");
    const ReplayInProgress in_progress;
    begin = now_ns();
    const BoundInputs kept = {.all = inputs.all, .stream = inputs.stream};  // for all runs
    for (int64_t i = 0; i < times; ++i)
      Replay(state.blueprint, *call.instance, *call.lease, state.host, kept).run(nullptr);
  } catch (...) {
    state.finish(call, false);
    throw;
  }
  const int64_t end = now_ns();
  state.finish(call, false);
  return static_cast<double>(end - begin) / static_cast<double>(times);
}

}  // namespace npugraph::runtime
