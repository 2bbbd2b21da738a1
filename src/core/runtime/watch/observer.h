// SPDX-License-Identifier: Apache-2.0
// Observes the tasks of one replay for the task log, the trace, timed runs, the poisoning of memory without content,
// red zones, the file of running tasks, the task watch and the process's profiler.
//
// Not thread-safe, so each strand of a replay has a copy. Lives as long as one replay. Made only if one of these is on;
// otherwise the hot loop pays only one branch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/host.h"
#include "runtime/instance/instance.h"
#include "runtime/instance/lease.h"
#include "runtime/memory/red_zones.h"
#include "runtime/watch/ledger.h"
#include "runtime/watch/task_watch.h"

namespace npugraph::runtime {

class Observer {
 public:
  // Whether the task log, the trace, the poisoning, the file of running tasks or a task watch is on.
  static bool wanted();

  // `times`, if not null, gets the time span of every task. With `labels`, each task is a range of the process's
  // profiler.
  Observer(const Blueprint& blueprint, const Instance& instance, const Lease& lease, const std::string& artifact,
           RunMode mode, const CallingStream& stream, std::vector<TimeSpan>* times, Host& host, bool labels);

  // Called before the tasks: inputs were copied from `begin_ns` until now.
  void staged(int64_t begin_ns) const;
  void before(int32_t task);
  void after(int32_t task);
  // Called instead of after() if the task failed. Leaves its memory as it is.
  void after_failure(int32_t task);
  // Whether a function is called between the tasks, which may use the threads of the team itself.
  bool calls_back() const { return watch_ != nullptr; }
  // Whether tasks must run in the order of the program.
  bool wants_order() const { return calls_back() || zones_ != nullptr; }

 private:
  void log(int32_t task, int64_t end_ns) const;
  void trace(int32_t task, int64_t end_ns) const;
  void poison_deaths(int32_t task) const;
  void show(int32_t task, bool done) const;
  void begin_range(int32_t task);
  void end_range();
  std::string describe(int32_t task) const;
  std::optional<int64_t> stream_id(const program::Task& task) const;
  void add_inputs(WatchedTask& watched) const;

  const Blueprint& blueprint_;
  const Instance& instance_;
  const std::string& artifact_;
  const RunMode mode_;
  const CallingStream stream_;
  std::vector<TimeSpan>* const times_;
  Host& host_;
  const bool labels_;
  const bool logs_;
  const bool traces_;
  const bool poisons_;
  const bool tells_what_runs_;
  const std::shared_ptr<const TaskWatch> watch_;
  std::shared_ptr<RedZones> zones_;  // null if there are no red zones
  void* range_ = nullptr;            // of the profiler, of the task that runs
  int64_t begin_ns_ = 0;
  uint64_t regions_ = 0;  // number of parallel regions before the task
};

}  // namespace npugraph::runtime
