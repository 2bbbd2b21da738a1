// SPDX-License-Identifier: Apache-2.0
// The inside of an Executable: what its calls share, and the course of a call. For the files that implement run(),
// Observation and HeldMemory.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fork.h"
#include "runtime/executable.h"
#include "runtime/instance/blueprint.h"
#include "runtime/instance/captured_keys.h"
#include "runtime/instance/instance.h"
#include "runtime/instance/instance_cache.h"
#include "runtime/instance/lease.h"
#include "runtime/memory/call_memory.h"
#include "runtime/memory/input_staging.h"
#include "runtime/observation.h"
#include "runtime/watch/ledger.h"

namespace npugraph::runtime {

// The tasks of a Program, destroyed together.
class BuiltTasks {
 public:
  BuiltTasks(const program::Program& program, const MakeTask& make) {
    tasks_.reserve(program.tasks.size());
    try {
      for (const auto& task : program.tasks) tasks_.push_back(make(program, task));
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~BuiltTasks() { destroy(); }
  BuiltTasks(const BuiltTasks&) = delete;
  BuiltTasks& operator=(const BuiltTasks&) = delete;

  std::span<const ng_task> all() const { return tasks_; }

 private:
  void destroy() {
    for (const ng_task& task : tasks_) {
      if (task.destroy != nullptr) task.destroy(task.context);
    }
  }
  std::vector<ng_task> tasks_;
};

// The bits of symbols that come from the inputs. Keys are compared by their bits: a float symbol that is NaN finds its
// Instance again.
SymbolKey key_of(const Blueprint& blueprint, std::span<const BoundInput> inputs);
// The values of all symbols; those that are not part of the key are 0.
std::vector<Scalar> symbols_of(const Blueprint& blueprint, const SymbolKey& key);

struct Executable::State {
  State(std::shared_ptr<const program::Program> source, Host& process, const MakeTask& make, Options wanted,
        std::string label, Hooks given);
  ~State();

  // One call, from the lease to its return.
  struct Call {
    SymbolKey key;
    Lease* lease = nullptr;
    Instance* instance = nullptr;
    std::unique_ptr<Instance> own;  // owns the Instance if it is not kept
    RunMode mode = RunMode::kReplay;
    bool rebound = false;
    bool refreshed = false;
    MovedInputs moved;
    std::unique_ptr<WorkingMemory> pooled;  // block of the shared pool, while the call runs
    std::string warning;
    size_t graph = 0;  // hash of the graph, if it is to be captured
    std::vector<std::unique_ptr<KeptResults>> gone;
    int64_t staged_bytes = 0;
    int64_t begin_ns = 0;         // of a timed run
    std::vector<TimeSpan> times;  // of the tasks of a timed run
  };

  void acquire(Call& call, const BoundInputs& inputs);
  Lease* find_lease(Call& call);
  // Decides whether the call replays, captures or runs without keeping an Instance. Called under the mutex, before its
  // lease is busy.
  void decide(Call& call, const BoundInputs& inputs);
  // Called for a capture beyond capture_limit: drops all captures and sets the warning. Under the mutex.
  void drop_captures(Call& call);
  void note_parameters(Call& call, const BoundInputs& inputs);
  // Counts a capture of a key that had been dropped to make room; the first one sets the warning. Under the mutex.
  void note_evicted(Call& call);
  WorkingMemory& memory_of(Call& call);
  KeptResults* results_of(Call& call);
  void capture(Call& call, const BoundInputs& inputs);
  RunStatus bind(Call& call, const BoundInputs& inputs);
  RunStatus replay(Call& call, const BoundInputs& inputs, std::span<BoundOutput> outputs, std::vector<int64_t>& dims);
  void finish(Call& call, bool completed);
  void count(const Call& call);
  // After a fork, gives up the leases of calls whose threads are not in this process. Under the mutex.
  void follow_fork();
  // Called before memory moves. Under the mutex.
  void check_idle() const;
  // Adds to the counter here and to that of the process. Under the mutex.
  void add(int64_t Counters::* count, int64_t more = 1);
  // Whether the call counts as one without a capture, also if a captured graph of the host keeps its Instance.
  bool is_eager(const Call& call) const { return call.mode == RunMode::kEager || !options.capture; }

  const Blueprint blueprint;
  Host& host;
  const Options options;
  const Hooks hooks;
  const std::string name;
  const BuiltTasks tasks;
  ConstantMemory constants;  // moved under the mutex while no call is in progress
  const StagingRule staging;
  std::unique_ptr<SharedPool> pool;

  mutable std::mutex mutex;  // guards what follows
  const HeldAcrossFork held_across_fork{mutex, 0};
  uint64_t generation = fork_generation();
  std::unique_ptr<std::condition_variable> lease_came_free = std::make_unique<std::condition_variable>();
  std::vector<std::unique_ptr<Lease>> leases;
  int32_t next_lease = 0;
  InstanceCache cache;  // declared after the leases, so that Instances are destroyed first
  CapturedKeys captured;
  Counters counters;
  std::optional<std::vector<Scalar>> latest_symbols;
  std::shared_ptr<const std::vector<TimedRun>> timed_runs;  // of the Instance that was timed last; null: none
  int64_t scratch_bytes = 0;
  int64_t bound_bytes = 0;
  int64_t undeclared_copies = 0;  // bytes that the last run copied, beyond what its tasks declare
};

}  // namespace npugraph::runtime
