// SPDX-License-Identifier: Apache-2.0
// Observation of the runs of a process: the task log, the memory pools, the poisoning of memory without content, red
// zones. Thread-safe. A switch that is off costs a relaxed load per replay.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensor/core_limits.h"

namespace npugraph::runtime {

enum class RunMode : uint8_t { kEager, kCapture, kReplay };

// Core limits that are set, under the names of torch.npu's stream limits.
using NamedLimits = std::vector<std::pair<std::string, int64_t>>;
NamedLimits by_name(const CoreLimits& limits);

// One launch of a task, also of one that failed.
struct TaskRecord {
  int64_t sequence = 0;  // order of completion in the process; set by TaskLog::add
  std::string artifact;
  std::string instance;  // key of the Instance
  int32_t task = 0;      // kNone: the copy of inputs before the first task
  std::string name;
  std::string kind;
  RunMode mode = RunMode::kReplay;
  int32_t stream = 0;
  std::optional<int64_t> stream_id;  // CallingStream::id, for tasks on stream 0 only
  std::optional<int32_t> device;     // CallingStream::device, for tasks on all streams
  std::vector<int32_t> workers;      // ids of the threads that took part; 0 is the caller
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  NamedLimits limits;               // in force
  std::vector<std::string> scopes;  // reserved, empty
  std::string plan;                 // of a task whose plan was tuned
  std::vector<int32_t> waits;       // tasks of other streams that it waited for
};

class TaskLog {
 public:
  static TaskLog& instance();
  // Starts nest; records are kept from the first start until the last stop.
  void start();
  std::vector<TaskRecord> stop();  // the records since the matching start
  bool active() const { return active_.load(std::memory_order_relaxed); }
  void add(TaskRecord record);

 private:
  TaskLog() = default;
  std::atomic<bool> active_{false};
  std::mutex mutex_;
  std::vector<size_t> starts_;  // index of the first record after each start that has no stop yet
  std::vector<TaskRecord> records_;
  int64_t next_sequence_ = 0;
};

struct PoolEvent {
  int64_t ns = 0;
  std::string what;   // "lease" when the pool is made, then "grow" and "drop"; "keep" for spare memory
  int64_t bytes = 0;  // of the pool after the event
};

struct PoolInfo {
  std::string name;                 // "arena forward#0"
  std::vector<std::string> owners;  // artifacts
  int64_t live_bytes = 0;           // held now
  int64_t peak_bytes = 0;
  std::vector<PoolEvent> history;  // the last 256
};

// The pools of the process in the order in which they were made. Destroyed pools are not listed.
std::vector<PoolInfo> pools();

// Whether memory that Programs place is filled with bytes 0xff, a NaN in every floating-point type and -1 in integers,
// so that a read shows which comes before the first write or after the last use: arena memory before each replay and,
// unless the Program runs in strands, when its content dies; a workspace before its task; results and heap buffers when
// they are allocated, and large ones when they are freed. Off unless NPUGRAPH_POISON turns it on.
void set_poison(bool on);
bool poison();
// Fills the memory if poison() is on.
void poison_memory(void* data, size_t bytes);

// Puts red zones (memory/red_zones.h) around the memory of Instances that are made after this call. Off unless
// NPUGRAPH_RED_ZONES turns them on.
void set_red_zones(bool on);
bool red_zones();

}  // namespace npugraph::runtime
