// SPDX-License-Identifier: Apache-2.0
// The process's pool of worker threads for parallel_for. Workers spin while a replay is in progress and park between
// replays.
//
// If the host has a team of threads, regions run on the team: two pools whose threads spin for work would take the
// processors from each other (BERT-base on two processors: 84 ms with a pool beside OpenMP's, 55 ms without).
//
// Thread-safe. One parallel region runs at a time: a region entered from inside a region, or while another thread holds
// the pool, runs in the calling thread. Safe under fork: a child starts with an empty pool and makes its own threads on
// first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "runtime/threads/range_queue.h"

namespace npugraph::runtime {

// Threads of the host.
struct Team {
  // Runs body(arg) at once in at most `threads` threads, the caller among them; returns when all are back.
  void (*run)(void (*body)(void* arg), void* arg, uint32_t threads) = nullptr;
  // Inside of run(): which thread of the team this is; 0 is the caller.
  int32_t (*thread)() = nullptr;
  // Inside of run(): how many threads it runs in.
  int32_t (*count)() = nullptr;
  // Ends the threads of the calling thread's team; its next run() makes new ones. False if that is impossible now.
  // Called before a fork, so that the child has no team whose threads are missing. Null: no team outlives a fork.
  bool (*end_threads)() = nullptr;
};

class WorkerPool {
 public:
  static WorkerPool& instance();

  // Threads that parallel_for may use, the caller included. NPUGRAPH_THREADS, else what the host sets (torch's
  // get_num_threads), bounded by the affinity mask.
  int32_t size() const;
  // Takes effect at the next region. Ignored when NPUGRAPH_THREADS is set.
  void set_size(int32_t threads);
  // Takes effect at the next region. A child of fork() keeps the team if its threads were ended before the fork, and
  // has threads of its own otherwise.
  void set_team(Team team);

  // Runs body for disjoint ranges that cover [begin, end): at most min(4 * size(), (end - begin) / grain) ranges of one
  // length, each of at least `grain` indices but the last. Any thread may take any range; bodies whose result must not
  // depend on size() compute each index independently. Workers use the floating-point control word of the caller
  // (denormals).
  void parallel_for(int64_t begin, int64_t end, int64_t grain, RangeBody body, void* arg);

  // Runs body(arg) in the calling thread while the threads of the host's team stand by, so that regions begin and end
  // without the team's own barriers: those wait for every thread, also for one that has lost its processor before it
  // could take part. body must neither throw nor use the team in other ways. Without a team, or if it stands by
  // already, this only calls body(arg).
  void with_team(void (*body)(void* arg), void* arg);
  // The same for a callable without arguments. What it throws leaves the team first, and then this function.
  template <typename Body>
  void with_team(Body body) {
    std::exception_ptr error;
    auto guarded = [&] {
      try {
        body();
      } catch (...) {
        error = std::current_exception();
      }
    };
    with_team([](void* opaque) { (*static_cast<decltype(guarded)*>(opaque))(); }, &guarded);
    if (error) std::rethrow_exception(error);
  }

  // Runs body(arg, k) for all k at once, each with sizes[k] threads of the pool to itself (runtime/threads/crew.h):
  // regions that it enters run only on those. The bodies may wait for each other and must not throw. False, with
  // nothing run, if the pool has fewer threads or is in use.
  bool run_crews(std::span<const int32_t> sizes, void (*body)(void* arg, size_t crew), void* arg);
  // Runs body(arg), including all of its regions, in the calling thread.
  void run_alone(void (*body)(void* arg), void* arg);

  // See ReplayInProgress.
  void begin_replay();
  void end_replay();

  // For the task log: the number of regions run so far, and the threads that took part in one after the first
  // `regions`, in order; 0 is the caller. For the leader of a crew: the regions and threads of the crew, the leader
  // first.
  uint64_t regions() const;
  std::vector<int32_t> workers_since(uint64_t regions) const;

 private:
  WorkerPool();
  struct Impl;
  Impl* impl_;  // leaked on purpose: workers may outlive static destruction
};

// Workers spin longer for more work before they park while one of these is alive. They nest.
class ReplayInProgress {
 public:
  ReplayInProgress() { WorkerPool::instance().begin_replay(); }
  ~ReplayInProgress() { WorkerPool::instance().end_replay(); }
  ReplayInProgress(const ReplayInProgress&) = delete;
  ReplayInProgress& operator=(const ReplayInProgress&) = delete;
};

}  // namespace npugraph::runtime
