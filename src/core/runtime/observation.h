// SPDX-License-Identifier: Apache-2.0
// What an Executable has done, and what it holds: counters, memory, times and the lives of buffers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/call.h"
#include "runtime/executable.h"

namespace npugraph::runtime {

struct InstanceInfo {
  std::string key;  // "s0=4, s1=128"
  std::vector<std::pair<std::string, Scalar>> symbols;
  int64_t captures = 0;
  int64_t replays = 0;
};

struct MemoryInfo {
  int64_t arena_bytes = 0;        // of the largest cached Instance
  int64_t lower_bound_bytes = 0;  // of that Instance: maximum of live arena bytes
  int64_t live_bytes = 0;         // the same for buffers only, without workspaces
  int64_t heap_bytes = 0;         // peak of heap and output memory in the last replay
  // The most memory for workspaces outside of the arena. Memory that the host's operators allocate themselves is not
  // counted.
  int64_t scratch_bytes = 0;
  int64_t derived_constant_bytes = 0;
  int64_t copied_bytes_per_replay = 0;  // in the last replay
  int64_t bound_bytes_per_call = 0;     // bytes of the inputs bound by the last call
};

// The size of an arena, heap or output buffer.
struct LiveBuffer {
  int32_t buffer = 0;
  int64_t bytes = 0;
};

// The time at which the most bytes of such buffers are alive.
struct LivePeak {
  std::optional<int32_t> task;  // nullopt: when results are handed out
  int64_t bytes = 0;
  std::vector<LiveBuffer> buffers;  // largest first
};

// The life of a buffer, or of the workspace of a task, from the first task that touches it to the last one, inclusive.
struct BufferLife {
  std::optional<int32_t> buffer;  // nullopt: a workspace
  int64_t bytes = 0;
  // nullopt: the time when results are handed out.
  std::optional<int32_t> first;
  std::optional<int32_t> last;
  std::optional<int64_t> offset;  // in the arena; nullopt: not in the arena
};

struct TaskTraffic {
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t bytes_copied = 0;  // part of bytes_written that was only moved
  // The median, the shortest and the longest time of the task in the timed runs, and its begin in the run of median
  // length, counted from the begin of the first task. All are 0 if there are no timed runs.
  int64_t nanoseconds = 0;
  int64_t least_nanoseconds = 0;
  int64_t most_nanoseconds = 0;
  int64_t begin_nanoseconds = 0;
};

// When something ran, in nanoseconds of now_ns().
struct TimeSpan {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

// Runs of an Instance that are timed: the first ones, without the very first, which warms caches.
inline constexpr int64_t kTimedRuns = 10;

// A run from the call to its results, and its tasks.
struct TimedRun {
  TimeSpan run;
  std::vector<TimeSpan> tasks;
};

struct Counters {
  int64_t captures = 0;
  int64_t capture_ns = 0;          // spent in making Instances
  int64_t replays = 0;             // including the runs that captured
  int64_t eager_runs = 0;          // runs whose Instance was not kept; no other counter includes them
  int64_t captures_in_graphs = 0;  // calls of which note_capture_in_graph() was told
  int64_t instance_hits = 0;
  int64_t instance_misses = 0;
  // Recaptures by reason.
  int64_t recaptured_new_symbols = 0;  // a size defined by a task differed from the last replay
  int64_t recaptured_evicted = 0;      // the key had been captured before and was dropped from the cache
  int64_t recaptured_forced = 0;       // the option force_recapture is on
  int64_t recaptured_limits = 0;       // the calling stream had other limits
  int64_t refreshes = 0;  // runs that bound tasks again because numbers that are not part of the key had changed
  // Calls with inputs at other addresses than before. Pointers are patched: no Instance is made and no capture counted.
  int64_t recaptured_written = 0;     // inputs that are written
  int64_t recaptured_parameters = 0;  // parameters
};

// The names of the counters, for one Executable and for the process.
struct CounterName {
  std::string_view name;
  int64_t Counters::* count;
};
inline constexpr CounterName kCounterNames[] = {
    {"captures", &Counters::captures},
    {"capture_ns", &Counters::capture_ns},
    {"replays", &Counters::replays},
    {"eager_runs", &Counters::eager_runs},
    {"captures_in_graphs", &Counters::captures_in_graphs},
    {"cache_hits", &Counters::instance_hits},
    {"cache_misses", &Counters::instance_misses},
    {"recaptures.new_symbols", &Counters::recaptured_new_symbols},
    {"recaptures.evicted", &Counters::recaptured_evicted},
    {"recaptures.forced", &Counters::recaptured_forced},
    {"recaptures.global_limit_core_change", &Counters::recaptured_limits},
    {"refreshes", &Counters::refreshes},
    {"recaptures.mutated_input_change", &Counters::recaptured_written},
    {"recaptures.parameter_change", &Counters::recaptured_parameters},
};

// Looks at an Executable, which must outlive it. Thread-safe, also during calls.
class Observation {
 public:
  explicit Observation(const Executable& executable) : state_(executable.state()) {}

  const program::Program& program() const;
  const CaptureRules& rules() const;
  std::vector<InstanceInfo> instances() const;
  MemoryInfo memory() const;
  // Under the sizes of the latest call. nullopt before the first one, and if no buffer is ever alive.
  std::optional<LivePeak> live_peak() const;
  // Arena, heap and output buffers and workspaces under the sizes of the latest call. If no Instance of these sizes is
  // cached, no buffer has an offset and the workspaces are missing.
  std::vector<BufferLife> lives() const;
  Counters counters() const;
  // Values of the Program's symbols in the latest call; nullopt before the first one.
  std::optional<std::vector<Scalar>> latest_symbols() const;
  // The timed runs of the Instance that was timed last, from the shortest to the longest.
  std::vector<TimedRun> timed_runs() const;
  // Bytes per task under the most recent Instance; zeros before the first call.
  std::vector<TaskTraffic> traffic() const;

 private:
  const Executable::State& state_;
};

// Counts a call that became part of a captured graph of the host, whose replays run it again. The host tells it after
// the call, so that other calls do not pay for the question.
void note_capture_in_graph(Executable& executable);

// Nanoseconds of the tasks alone: the mean of `times` consecutive runs, whose outputs are dropped. Tasks write into
// inputs in each of the runs. A task that fails and an input that run() refuses throw a std::runtime_error.
double time_tasks(Executable& executable, const BoundInputs& inputs, int64_t times);

}  // namespace npugraph::runtime
