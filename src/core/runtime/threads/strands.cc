// SPDX-License-Identifier: Apache-2.0
#include "runtime/threads/strands.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <utility>

#include "runtime/threads/crew.h"
#include "runtime/threads/worker_pool.h"

namespace npugraph::runtime {

using program::kNone;

CoreLimits limits_of(const program::Task& task, const CoreLimits& of_stream) {
  return task.stream == 0 && task.limits == CoreLimits{} ? of_stream : task.limits;
}

int32_t Strands::limit_of(int32_t t) const {
  const program::Task& task = blueprint_.program->tasks[t];
  const CoreLimits limits = limits_of(task, of_stream_);
  if (task.kind == program::TaskKind::kSuperKernel && limits.cube > 0 && limits.vector > 0) {
    return std::min(limits.cube, limits.vector);  // its parts are of both kinds
  }
  return program::has(task.kind, program::KindTrait::kProduct) ? limits.cube : limits.vector;
}

// One run in crews.
struct Strands::Crews {
  struct alignas(kCacheLine) Progress {
    std::atomic<int32_t> next{0};  // all of the crew's tasks before this one are done
  };

  Crews(Strands& owner, std::vector<int32_t> threads, int32_t first, int32_t last)
      : strands(owner), sizes(std::move(threads)), begin(first), end(last), progress(sizes.size()) {
    for (Progress& crew : progress) crew.next.store(begin, std::memory_order_relaxed);
  }

  int32_t crew_of(int32_t task) const {
    const int32_t turn = strands.turn_of_strand_[strands.strand_of(task)];
    return turn % static_cast<int32_t>(sizes.size());
  }
  // False when the pool cannot run them; then nothing has run.
  bool run() {
    const auto body = [](void* self, size_t crew) { static_cast<Crews*>(self)->run_crew(static_cast<int32_t>(crew)); };
    if (!WorkerPool::instance().run_crews(sizes, body, this)) return false;
    if (error) std::rethrow_exception(error);
    return true;
  }
  void run_crew(int32_t crew) {
    Thread thread;
    for (int32_t t = begin; t < end; ++t) {
      if (crew_of(t) != crew) continue;
      if (!await_others(t)) return;
      const int32_t limit = strands.limit_of(t);
      Crew::own()->limit(limit > 0 ? limit : sizes[crew]);
      strands.service_of(strands.strand_of(t)).workers = Crew::own()->size();
      try {
        strands.run_task_(t, thread);
      } catch (...) {
        return fail(t);
      }
      progress[crew].next.store(t + 1, std::memory_order_release);
    }
  }
  // False when another crew has failed.
  bool await_others(int32_t task) {
    for (const int32_t other : strands.blueprint_.program->tasks[task].waits) {
      if (other < begin) continue;  // ran before all of these
      const std::atomic<int32_t>& next = progress[crew_of(other)].next;
      spin_until([&] {
        return next.load(std::memory_order_acquire) > other || first_failed.load(std::memory_order_relaxed) != kNone;
      });
      if (next.load(std::memory_order_acquire) <= other) return false;
    }
    return first_failed.load(std::memory_order_relaxed) == kNone;
  }
  void fail(int32_t task) {
    const std::lock_guard lock(mutex);
    const int32_t before = first_failed.load(std::memory_order_relaxed);
    if (before != kNone && before < task) return;
    error = std::current_exception();
    first_failed.store(task, std::memory_order_relaxed);
  }

  Strands& strands;
  const std::vector<int32_t> sizes;
  const int32_t begin;
  const int32_t end;
  std::vector<Progress> progress;  // per crew
  std::atomic<int32_t> first_failed{kNone};
  std::mutex mutex;
  std::exception_ptr error;
};

Strands::Strands(const Blueprint& blueprint, Lease& lease, const CoreLimits& of_stream, int32_t begin, int32_t end,
                 RunTask run_task)
    : blueprint_(blueprint),
      lease_(lease),
      of_stream_(of_stream),
      begin_(begin),
      end_(end),
      run_task_(std::move(run_task)),
      turn_of_strand_(blueprint.num_strands, kNone) {
  for (int32_t t = begin; t < end; ++t) {
    int32_t& turn = turn_of_strand_[strand_of(t)];
    if (turn != kNone) continue;
    turn = static_cast<int32_t>(used_.size());
    used_.push_back(strand_of(t));
  }
}

void Strands::run() {
  const int32_t workers = WorkerPool::instance().size();
  if (workers == 1) return run_in_order(begin_, end_);
  used_.size() > 1 ? run_together(workers) : run_one_strand(workers);
}

void Strands::run_together(int32_t workers) {
  const int32_t crews = std::min(workers, static_cast<int32_t>(used_.size()));
  if (!Crews(*this, sizes_of_crews(workers, crews), begin_, end_).run()) run_in_order(begin_, end_);
}

// No crew has more threads than its tasks may use.
std::vector<int32_t> Strands::sizes_of_crews(int32_t workers, int32_t crews) const {
  std::vector<int32_t> most(crews, 0);
  for (int32_t t = begin_; t < end_; ++t) {
    const int32_t limit = limit_of(t);
    int32_t& of_crew = most[turn_of_strand_[strand_of(t)] % crews];
    of_crew = std::max(of_crew, limit > 0 ? limit : workers);
  }
  std::vector<int32_t> sizes;
  for (int32_t crew = 0; crew < crews; ++crew) {
    const int32_t share = workers / crews + (crew < workers % crews ? 1 : 0);
    sizes.push_back(std::min(share, most[crew]));
  }
  return sizes;
}

// Consecutive limited tasks run in a crew, the others as if there were no strands.
void Strands::run_one_strand(int32_t workers) {
  const auto is_limited = [&](int32_t t) {
    const int32_t limit = limit_of(t);
    return limit > 0 && limit < workers;
  };
  for (int32_t t = begin_; t < end_;) {
    int32_t stop = t + 1, most = 1;
    while (stop < end_ && is_limited(stop) == is_limited(t)) ++stop;
    for (int32_t i = t; i < stop; ++i) most = std::max(most, limit_of(i));
    if (!is_limited(t)) {
      Thread thread;
      service_of(used_.front()).workers = workers;
      for (int32_t i = t; i < stop; ++i) run_task_(i, thread);
    } else if (!Crews(*this, {most}, t, stop).run()) {
      run_in_order(t, stop);
    }
    t = stop;
  }
}

void Strands::run_in_order(int32_t begin, int32_t end) {
  std::exception_ptr error;
  auto body = [&] {
    try {
      Thread thread;
      for (int32_t t = begin; t < end; ++t) run_task_(t, thread);
    } catch (...) {
      error = std::current_exception();
    }
  };
  for (const int32_t strand : used_) service_of(strand).workers = 1;
  WorkerPool::instance().run_alone([](void* opaque) { (*static_cast<decltype(body)*>(opaque))(); }, &body);
  if (error) std::rethrow_exception(error);
}

}  // namespace npugraph::runtime
