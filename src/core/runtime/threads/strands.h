// SPDX-License-Identifier: Apache-2.0
// Runs tasks of several streams at once, each stream by threads of its own, and keeps tasks within their core limits.
//
// A strand is the part of a replay that one stream runs. Strands share the workers evenly; if there are fewer workers
// than strands, some strands share a crew. A crew runs its tasks in program order; a task first waits for the tasks of
// other crews that it names. So the first task that is not done never waits, and there is no deadlock for any number of
// workers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/instance/blueprint.h"
#include "runtime/instance/lease.h"
#include "runtime/watch/observer.h"

namespace npugraph::runtime {

// The limits of a task of a graph that is called on a stream with the limits `of_stream`: `of_stream` if the task has
// none of its own and runs on that stream, else its own.
CoreLimits limits_of(const program::Task& task, const CoreLimits& of_stream);

class Strands {
 public:
  // The state that the leader of a crew keeps between its tasks.
  struct Thread {
    std::optional<Observer> observer;
    std::shared_ptr<void> state;  // the settings of the calling thread (Host::thread_state)
  };
  // Runs a task; throws when it fails.
  using RunTask = std::function<void(int32_t task, Thread& thread)>;

  // For the tasks [begin, end) of a graph that is called on a stream with the limits `of_stream`.
  Strands(const Blueprint& blueprint, Lease& lease, const CoreLimits& of_stream, int32_t begin, int32_t end,
          RunTask run_task);

  // Runs each of the tasks once. If one fails, strands stop before their next task; throws the error of the failed task
  // that is first in program order.
  void run();

 private:
  struct Crews;
  void run_one_strand(int32_t workers);
  void run_together(int32_t workers);
  void run_in_order(int32_t begin, int32_t end);
  std::vector<int32_t> sizes_of_crews(int32_t workers, int32_t crews) const;
  int32_t strand_of(int32_t task) const { return blueprint_.has_strands() ? blueprint_.strand_of_task[task] : 0; }
  int32_t limit_of(int32_t task) const;  // how many workers it may use; 0: any number
  ng_host& service_of(int32_t strand) {
    return blueprint_.has_strands() ? lease_.strand_services[strand] : lease_.service;
  }

  const Blueprint& blueprint_;
  Lease& lease_;
  const CoreLimits of_stream_;
  const int32_t begin_;
  const int32_t end_;
  const RunTask run_task_;
  std::vector<int32_t> used_;            // strands that have tasks here, in the order of their first tasks
  std::vector<int32_t> turn_of_strand_;  // index into used_
};

}  // namespace npugraph::runtime
