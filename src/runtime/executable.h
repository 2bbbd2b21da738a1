// SPDX-License-Identifier: Apache-2.0
// A Program ready to run in this process: its tasks built, its Instances cached, its arenas shared.
//
// Thread-safe. Concurrent calls each lease an Instance and an arena of their own, up to Options::max_concurrent; more calls
// wait for one, so the caller holds no lock that a task may need (the GIL, when there are Python tasks). A task may call its
// own Executable from the thread that runs it: nested calls never wait. A call never leaves the Executable changed by an
// error: the next call works. In the child of a fork, calls that other threads were making are as if they had never been; what
// they held is lost.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.h"
#include "runtime/host.h"
#include "runtime/options.h"
#include "runtime/task_makers.h"
#include "tensor/core_limits.h"

namespace npugraph::runtime {

// One bound input. For scalars only `scalar` is set.
struct BoundInput {
  void* data = nullptr;
  void* object = nullptr;  // borrowed: the host's tensor
  ng_scalar scalar{};
  const int64_t* sizes = nullptr;  // read only for inputs that define symbols
  int64_t storage_offset = 0;      // elements from the start of its memory to `data`
  int64_t capacity = INT64_MAX;    // bytes from `data` to the end of its memory
  void* storage = nullptr;         // borrowed: what Host::hold() takes
};

// The stream of a device on which a call is made, and how many workers its tasks may use: those on streams of the graph's own, and
// within limits of the graph, follow these instead.
struct CallingStream {
  std::optional<int64_t> id;      // none: the Program is not of a device with streams
  std::optional<int32_t> device;  // its index; none as the id
  CoreLimits limits;
};

// The inputs of a call.
struct BoundInputs {
  std::span<const BoundInput> all;
  // Other than 0: calls of the same version have the same objects and addresses, of the same capacity and place in storage.
  uint64_t version = 0;
  int64_t staged_bytes = 0;  // that the caller copied to make them
  CallingStream stream;
};

// One result. For tensors, `object` carries one reference that the caller now owns, `byte_offset` places the window in the
// object's memory and sizes and strides are in the `dims` of the call.
struct BoundOutput {
  program::Output::Kind kind = program::Output::Kind::kNone;
  void* object = nullptr;
  void* data = nullptr;  // the first element of the window
  int64_t byte_offset = 0;
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
  DType dtype = DType::kF32;
  ng_scalar scalar{};
  ScalarKind scalar_kind = ScalarKind::kInt;
  int32_t input = -1;  // the caller's tensor that this output is, or is a window of
  bool whole = false;  // the window is the whole object: it can be returned as it is
};

// Makes the task of an entry of the Program for these values of its scalars alone; nothing where there is no such task.
using Specialise = std::function<std::optional<ng_task>(const program::Task&, std::span<const ng_scalar> scalars)>;

// How an Executable reaches what stands above the runtime.
struct Hooks {
  bool counts_by_name = false;  // in the process, under the names that Ascend's documents give counters of graphs
  // Asked once for each Instance, with the values of the symbols (those of inputs are known), which tasks it gets of its own.
  std::function<Specialise(std::span<const Scalar> symbols)> specialise;
};

enum class RunStatus : uint8_t {
  kOk,
  kTaskFailed,  // RunResult::error says what; the host may hold an exception
  // Nothing has run:
  kInputsOverlap,   // a written input overlaps another one in a way not seen at compile time
  kInputElsewhere,  // an input of which the graph names places lies elsewhere in its storage than at compile time
  kInputRefused,    // RunResult::error names the input whose memory ends too early
};

struct RunResult {
  RunStatus status = RunStatus::kOk;
  std::string error;
  int32_t task = -1;    // the task that failed
  std::string warning;  // for the user; empty: none
};

struct InstanceInfo {
  std::string key;  // "s0=4, s1=128"
  std::vector<std::pair<std::string, Scalar>> symbols;
  int64_t captures = 0;
  int64_t replays = 0;
};

struct MemoryInfo {
  int64_t arena_bytes = 0;        // largest bound Instance
  int64_t lower_bound_bytes = 0;  // of that Instance: maximum of live arena bytes
  int64_t live_bytes = 0;         // the same, of buffers alone, without workspaces
  int64_t heap_bytes = 0;         // peak of adopted and output memory of the last replay
  int64_t scratch_bytes = 0;      // largest workspace outside of the arena; of the host nothing is seen
  int64_t derived_constant_bytes = 0;
  int64_t copied_bytes_per_replay = 0;  // in the last replay
  int64_t bound_bytes_per_call = 0;     // bytes of the inputs bound by the last call
};

// A buffer of the Program at work: arena, heap or result.
struct LiveBuffer {
  int32_t buffer = -1;
  int64_t bytes = 0;
};

// The task at which most bytes of such buffers live.
struct LivePeak {
  int32_t task = -1;  // none while no call was made; as many as there are tasks: when results are handed out
  int64_t bytes = 0;
  std::vector<LiveBuffer> buffers;  // largest first
};

// From the first task that touches a buffer to the last one, inclusive; as many as there are tasks: when results are handed
// out.
struct BufferLife {
  int32_t buffer = -1;  // none: the workspace of a task
  int64_t bytes = 0;
  int64_t first = 0;
  int64_t last = 0;
  int64_t offset = -1;  // in the arena; -1: elsewhere
};

struct TaskTraffic {
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t bytes_copied = 0;  // of those written, what was only moved
  // 0 where no run was timed: the median of the timed runs, the shortest and the longest of them, and since the first task
  // began, in the run of middle length.
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

// From the call to its results, and the tasks within.
struct TimedRun {
  TimeSpan run;
  std::vector<TimeSpan> tasks;
};

struct Counters {
  int64_t captures = 0;
  int64_t capture_ns = 0;  // that making Instances took
  int64_t replays = 0;     // the runs that captured, too
  int64_t eager_runs = 0;  // those whose Instance was not kept; no other count knows them
  int64_t instance_hits = 0;
  int64_t instance_misses = 0;
  // Recaptures by reason.
  int64_t recaptured_new_symbols = 0;  // a size defined by a task differed from the last replay
  int64_t recaptured_evicted = 0;      // the key had been captured before and was dropped from the cache
  int64_t recaptured_forced = 0;       // the option force_recapture is on
  int64_t recaptured_limits = 0;       // the calling stream had other limits
  int64_t refreshes = 0;               // runs of an Instance that began with telling its tasks other numbers
  // Other memory than in the call before. Pointers are patched, so this makes no Instance and counts as no capture.
  int64_t recaptured_written = 0;     // of inputs that are written
  int64_t recaptured_parameters = 0;  // of parameters
};

// The names under which people see the counts, of one Executable as of the process.
struct CounterName {
  std::string_view name;
  int64_t Counters::* count;
};
inline constexpr CounterName kCounterNames[] = {
    {"captures", &Counters::captures},
    {"capture_ns", &Counters::capture_ns},
    {"replays", &Counters::replays},
    {"eager_runs", &Counters::eager_runs},
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

class Executable {
 public:
  // Makes every task by `make`, whose UserError passes through.
  Executable(std::shared_ptr<const program::Program> program, Host& host, const MakeTask& make, Options options,
             std::string name, Hooks hooks = {});
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  // Binds and replays. `outputs` has one entry per Program output; their sizes and strides go to `dims`. On any status but kOk
  // no output holds a reference.
  RunResult run(const BoundInputs& inputs, std::span<BoundOutput> outputs, std::vector<int64_t>& dims);

  // Nanoseconds of the tasks alone, the mean of `times` runs in a row whose outputs are dropped. What tasks write into inputs,
  // they write each time. What an error throws; UserError for inputs that run() refuses.
  double time_tasks(const BoundInputs& inputs, int64_t times);

  const program::Program& program() const;
  const CaptureRules& rules() const;
  std::vector<InstanceInfo> instances() const;
  MemoryInfo memory() const;
  // Under the sizes of the latest call.
  LivePeak live_peak() const;
  // Arena, heap, results and workspaces under the sizes of the latest call; without an Instance of it nothing lies in the arena.
  std::vector<BufferLife> lives() const;
  Counters counters() const;
  // Values of the Program's symbols in the latest call; nothing before the first one.
  std::optional<std::vector<Scalar>> latest_symbols() const;
  // Of the Instance that was timed last: its first kTimedRuns runs but the very first one, which warms caches, from the
  // shortest to the longest.
  std::vector<TimedRun> timed_runs() const;
  static constexpr int64_t kTimedRuns = 10;
  // Bytes per task under the most recent Instance; zeros before the first call.
  std::vector<TaskTraffic> traffic() const;
  // Drops all Instances and arenas that are not in use.
  void trim();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace npugraph::runtime
