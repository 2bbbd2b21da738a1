// SPDX-License-Identifier: Apache-2.0
// A Program ready to run in this process: its tasks built, its Instances cached, its arenas shared.
//
// Thread-safe. Concurrent calls each lease an Instance and an arena of their own, up to Options::max_concurrent; more
// calls wait for one, so the caller must hold no lock that a task may need (the GIL, if there are Python tasks). A task
// may call its own Executable from the thread that runs it: nested calls never wait. An error in a call does not change
// the Executable: the next call works. In the child of a fork, the calls of other threads are forgotten and the memory
// that they held is leaked.
#pragma once

#include <cstddef>
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
  const int64_t* sizes = nullptr;    // read only for inputs with symbolic sizes
  const int64_t* strides = nullptr;  // read only where symbolic; null if the input has those of the Program
  int64_t storage_offset = 0;        // elements from the start of its memory to `data`
  int64_t capacity = INT64_MAX;      // bytes from `data` to the end of its memory
  void* storage = nullptr;           // borrowed: the argument of Host::hold()
};

// The device stream on which a call is made, and the core limits of that stream. Tasks on other streams of the graph,
// and tasks that have limits in the graph, follow those of the graph instead.
struct CallingStream {
  std::optional<int64_t> id;      // nullopt if the Program does not run on a device with streams
  std::optional<int32_t> device;  // index of the device; nullopt if `id` is
  CoreLimits limits;
};

// Memory of the caller for a result.
struct ResultMemory {
  void* object = nullptr;  // borrowed: an object of the host; null: the host allocates memory
  void* data = nullptr;
  int64_t bytes = 0;
};

// A value of BoundInputs::version that nobody else has.
uint64_t new_inputs_version();

// The inputs of a call.
struct BoundInputs {
  std::span<const BoundInput> all;
  // If not 0: calls with the same version have the same objects, addresses, capacities, storage offsets, sizes and
  // strides.
  uint64_t version = 0;
  int64_t staged_bytes = 0;  // bytes that the caller copied to make the inputs
  CallingStream stream;
  // Whether the call is a part of a captured graph of the host, whose replays repeat it: its Instance is kept, whatever
  // Options::capture says.
  bool in_captured_graph = false;
  // One entry per output, or none. Tasks write an output there if all of its buffer fits; whoever calls compares the
  // addresses and copies what is elsewhere. The memory must not overlap inputs.
  std::span<const ResultMemory> results;
  // Called between tasks, from the thread that runs them, when nothing reads the memory of input `input` any more: the
  // caller may free it. Null: inputs live as long as the call.
  void (*done_with)(void* caller, size_t input) = nullptr;
  void* caller = nullptr;
};

// One result. For tensors, `object` carries one reference that the caller owns, `byte_offset` is the place of the
// window in the object's memory, and sizes and strides are in the `dims` of the call.
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
  int32_t input = -1;  // index of the input that this output is, or is a window of; -1: none
  bool whole = false;  // the window is the whole object: it can be returned as it is
};

// Makes a task that is only valid for the given values of its scalars; nullopt if there is no such task.
using Specialise = std::function<std::optional<ng_task>(const program::Task&, std::span<const ng_scalar> scalars)>;

// Callbacks from an Executable to the layers above the runtime.
struct Hooks {
  bool counts_by_name = false;  // count graphs in the process's counters, too, under the names of Ascend's documents
  // Called once for each Instance with the values of the symbols, of which those of inputs are known. Returns the
  // function that makes the Instance's own tasks; it may be empty.
  std::function<Specialise(std::span<const Scalar> symbols)> specialise;
};

enum class RunStatus : uint8_t {
  kOk,
  kTaskFailed,  // RunResult::error says what; the host may hold an exception
  // In these cases nothing has run:
  kInputsOverlap,  // a written input overlaps another one in a way not seen at compile time
  // An input whose storage the graph addresses lies elsewhere in it than at compile time, or has a smaller storage.
  kInputElsewhere,
  // RunResult::error names the input: it has other sizes or strides than the graph was compiled for, or its memory ends
  // too early.
  kInputRefused,
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
  int32_t buffer = -1;
  int64_t bytes = 0;
};

// The task at which the most bytes of such buffers are alive.
struct LivePeak {
  int32_t task = -1;  // -1 before the first call; the number of tasks: when results are handed out
  int64_t bytes = 0;
  std::vector<LiveBuffer> buffers;  // largest first
};

// The life of a buffer, from the first task that touches it to the last one, inclusive. The number of tasks stands for
// the time when results are handed out.
struct BufferLife {
  int32_t buffer = -1;  // -1: the workspace of a task
  int64_t bytes = 0;
  int64_t first = 0;
  int64_t last = 0;
  int64_t offset = -1;  // in the arena; -1: not in the arena
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
  int64_t captures_in_graphs = 0;  // calls of which note_captured_in_graph() was told
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

class Executable {
 public:
  // Makes every task with `make`, whose UserError passes through.
  Executable(std::shared_ptr<const program::Program> program, Host& host, const MakeTask& make, Options options,
             std::string name, Hooks hooks = {});
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  // Binds and replays. `outputs` has one entry per Program output; their sizes and strides go to `dims`. If the status
  // is not kOk, no output holds a reference.
  RunResult run(const BoundInputs& inputs, std::span<BoundOutput> outputs, std::vector<int64_t>& dims);

  // Makes the Instance for the sizes and numbers of these inputs, whose memory is not read, unless there is one.
  // Returns the bytes of the block that its arena needs. Takes no memory from Options::memory, and throws what run()
  // reports.
  int64_t prepare(const BoundInputs& inputs);

  // Counts a call that became part of a captured graph of the host, whose replays run it again.
  void note_captured_in_graph();

  // Nanoseconds of the tasks alone: the mean of `times` consecutive runs, whose outputs are dropped. Tasks write into
  // inputs in each of the runs. A task that fails and an input that run() refuses throw a std::runtime_error.
  double time_tasks(const BoundInputs& inputs, int64_t times);

  const program::Program& program() const;
  const CaptureRules& rules() const;
  std::vector<InstanceInfo> instances() const;
  MemoryInfo memory() const;
  // Under the sizes of the latest call.
  LivePeak live_peak() const;
  // Arena, heap and output buffers and workspaces under the sizes of the latest call. If no Instance of these sizes is
  // cached, no buffer has an offset and the workspaces are missing.
  std::vector<BufferLife> lives() const;
  Counters counters() const;
  // Values of the Program's symbols in the latest call; nothing before the first one.
  std::optional<std::vector<Scalar>> latest_symbols() const;
  // The runs of the Instance that was timed last, from the shortest to the longest: its first kTimedRuns runs, without
  // the very first one, which warms caches.
  std::vector<TimedRun> timed_runs() const;
  static constexpr int64_t kTimedRuns = 10;
  // Bytes per task under the most recent Instance; zeros before the first call.
  std::vector<TaskTraffic> traffic() const;
  // Bytes that copies of all constants need.
  int64_t constant_bytes() const;
  // Copies the constants to `base`, 64-byte aligned memory of constant_bytes() that must stay as it is until the next
  // move; tasks read them there. Null: they read the bytes of the Program. No call may be in progress.
  void move_constants(std::byte* base);
  // Gives all working memory back to Options::memory; Instances stay, and calls take it again. No call may be in
  // progress.
  void release_memory();
  // Drops all Instances and arenas that are not in use.
  void trim();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace npugraph::runtime
