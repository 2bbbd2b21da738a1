// SPDX-License-Identifier: Apache-2.0
// Looks at the tasks of one replay for those who asked: the task log, the trace, the poisoning of dead memory, red
// zones, the file of running tasks, and whoever watches tasks.
//
// Not thread-safe, so that each lane of a replay has a copy; lives as long as one replay. Made only when somebody asked, so that
// the hot loop pays one branch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/instance/instance.h"
#include "runtime/instance/lease.h"
#include "runtime/memory/red_zones.h"
#include "runtime/watch/ledger.h"
#include "runtime/watch/task_watch.h"

namespace npugraph::runtime {

class Observer {
 public:
  // Whether anybody looks at this moment.
  static bool wanted();

  // `times`, when not null, gets those of every task.
  Observer(const Blueprint& blueprint, const Instance& instance, const Lease& lease, const std::string& artifact,
           RunMode mode, const CallingStream& stream, std::vector<TimeSpan>* times, const Host& host);

  // Before the tasks: the inputs were copied, since `begin_ns`.
  void staged(int64_t begin_ns) const;
  void before(int32_t task);
  void after(int32_t task);
  // Instead of after(): the task failed. Its memory is left as it is.
  void after_failure(int32_t task);
  // Whether somebody is called back from between the tasks, who may use the threads of the team himself.
  bool calls_back() const { return watch_ != nullptr; }
  // Whether tasks are to run in the order of the program.
  bool wants_order() const { return calls_back() || zones_ != nullptr; }

 private:
  void log(int32_t task, int64_t end_ns) const;
  void trace(int32_t task, int64_t end_ns) const;
  void poison_deaths(int32_t task) const;
  void show(int32_t task, bool done) const;
  std::string describe(int32_t task) const;
  std::optional<int64_t> stream_id(const program::Task& task) const;
  void add_inputs(WatchedTask& watched) const;

  const Blueprint& blueprint_;
  const Instance& instance_;
  const std::string& artifact_;
  const RunMode mode_;
  const CallingStream stream_;
  std::vector<TimeSpan>* const times_;
  const bool logs_;
  const bool traces_;
  const bool poisons_;
  const bool tells_what_runs_;
  const std::shared_ptr<const TaskWatch> watch_;
  std::shared_ptr<const RedZones> zones_;  // null: none
  int64_t begin_ns_ = 0;
  uint64_t regions_ = 0;  // parallel regions before the task
};

}  // namespace npugraph::runtime
