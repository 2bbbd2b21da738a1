// SPDX-License-Identifier: Apache-2.0
#include "runtime/threads/worker_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <pthread.h>
#include <sched.h>

#include "base/env.h"
#include "base/fork.h"
#include "base/trace.h"
#include "runtime/threads/crew.h"
#include "runtime/threads/fp_control.h"
#include "runtime/threads/range_queue.h"

namespace npugraph::runtime {
namespace {

constexpr int32_t kMaxThreads = 1024;
// How long a worker looks for more work before it parks: within a replay, and outside of one.
constexpr int64_t kSpinInReplayNs = 100'000;
constexpr int64_t kSpinOutsideNs = 2'000;

int32_t processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return static_cast<int32_t>(std::thread::hardware_concurrency());
  return std::max(CPU_COUNT(&set), 1);
}

thread_local bool inside_region = false;
thread_local int32_t replays_of_this_thread = 0;
thread_local int32_t id_of_this_thread = 0;  // of our own workers
thread_local bool team_outlives_fork = false;

// While one of these lives, a thread of the team works for the pool. Regions set their own control word; the destructor
// restores that of the thread.
class TeamMember {
 public:
  TeamMember() { inside_region = true; }
  ~TeamMember() {
    inside_region = was_inside_;
    if (fp_control() != own_fp_control_) set_fp_control(own_fp_control_);
  }
  TeamMember(const TeamMember&) = delete;
  TeamMember& operator=(const TeamMember&) = delete;
  uint64_t own_fp_control() const { return own_fp_control_; }

 private:
  const bool was_inside_ = inside_region;
  const uint64_t own_fp_control_ = fp_control();
};

}  // namespace

struct WorkerPool::Impl {
  explicit Impl(int32_t threads) : wanted(threads) {}

  void run(const Region& next, uint32_t ranges);
  void start_workers();
  void work(int32_t id);
  bool await_work(int32_t id, const std::atomic<bool>& over);
  void serve(const std::atomic<bool>& over);
  bool has_work(int32_t id) const;
  void take_ranges(int32_t id);
  void take_ranges_in_team();
  void wake();

  Team team;                                   // of the host; none: threads of our own
  std::atomic<int32_t> wanted;                 // threads, the caller included
  std::atomic_flag in_use = ATOMIC_FLAG_INIT;  // one region at a time
  std::atomic<bool> standing_by{false};        // threads of the team are in serve()
  std::atomic<int32_t> replays{0};

  RangeQueue queue;
  alignas(kCacheLine) std::atomic<uint64_t> regions{0};

  std::mutex mutex;  // guards parking and the start of threads
  std::condition_variable work_came;
  std::atomic<int32_t> parked{0};

  // The last region in which each thread took part.
  struct alignas(kCacheLine) Presence {
    std::atomic<uint64_t> region{0};
  };
  std::unique_ptr<Presence[]> presence = std::make_unique<Presence[]>(kMaxThreads);
  std::atomic<int32_t> workers{0};  // those that may have taken part, without the caller
};

void WorkerPool::Impl::take_ranges(int32_t id) {
  queue.take_ranges(id, [&](uint64_t number) { presence[id].region.store(number, std::memory_order_relaxed); });
}

void WorkerPool::Impl::run(const Region& next, uint32_t ranges) {
  // Ordered against the count of parked workers: either they see the ranges or we see them.
  queue.publish(next, ranges, wanted.load(std::memory_order_relaxed));
  if (team.run != nullptr && !standing_by.load(std::memory_order_relaxed)) {
    const auto body = [](void* self) { static_cast<Impl*>(self)->take_ranges_in_team(); };
    return team.run(body, this, std::min<uint32_t>(ranges, wanted.load(std::memory_order_relaxed)));
  }
  if (parked.load(std::memory_order_seq_cst) > 0) wake();
  inside_region = true;
  take_ranges(0);
  inside_region = false;
  queue.await_all(ranges);
}

void WorkerPool::Impl::take_ranges_in_team() {
  const TeamMember member;
  take_ranges(team.thread());
}

void WorkerPool::Impl::wake() {
  std::lock_guard lock(mutex);
  work_came.notify_all();
}

void WorkerPool::Impl::start_workers() {
  std::lock_guard lock(mutex);
  if (team.run != nullptr) return workers.store(wanted.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  while (workers.load(std::memory_order_relaxed) < wanted.load(std::memory_order_relaxed) - 1) {
    const int32_t id = workers.load(std::memory_order_relaxed) + 1;
    try {
      std::thread([this, id] { work(id); }).detach();
    } catch (const std::system_error&) {
      return;  // no more threads are available: the caller and the existing workers do the work
    }
    workers.store(id, std::memory_order_relaxed);
  }
}

void WorkerPool::Impl::work(int32_t id) {
  trace::set_thread_name("npugraph worker " + std::to_string(id));
  inside_region = true;
  id_of_this_thread = id;
  const std::atomic<bool> over{false};
  while (await_work(id, over)) take_ranges(id);
}

// The work of a thread of the team until the caller's body has returned.
void WorkerPool::Impl::serve(const std::atomic<bool>& over) {
  const TeamMember member;
  const int32_t id = team.thread();
  while (await_work(id, over)) take_ranges(id);
}

bool WorkerPool::Impl::has_work(int32_t id) const {
  return queue.has_ranges() &&
         id < wanted.load(std::memory_order_relaxed);  // a pool made smaller keeps its last workers idle
}

// False if `over` is set instead.
bool WorkerPool::Impl::await_work(int32_t id, const std::atomic<bool>& over) {
  const int64_t start = now_ns();
  for (;;) {
    for (int i = 0; i < 64; ++i) {
      if (has_work(id)) return true;
      if (over.load(std::memory_order_acquire)) return false;
      pause_cpu();
    }
    const int64_t limit = replays.load(std::memory_order_relaxed) > 0 ? kSpinInReplayNs : kSpinOutsideNs;
    if (now_ns() - start > limit) break;
  }
  std::unique_lock lock(mutex);
  parked.fetch_add(1, std::memory_order_seq_cst);
  work_came.wait(lock, [&] { return has_work(id) || over.load(std::memory_order_seq_cst); });
  parked.fetch_sub(1, std::memory_order_relaxed);
  return has_work(id) || !over.load(std::memory_order_relaxed);
}

WorkerPool::WorkerPool() {
  const int32_t fixed = environment().threads;
  impl_ = new Impl(std::min(fixed > 0 ? fixed : processors(), kMaxThreads));
  // Handlers run before a fork in the reverse order of their registration. That of fork.h locks mutexes, which threads
  // of the team may want when they end, so it is registered first.
  fork_generation();
  pthread_atfork(
      [] {
        const Team& team = instance().impl_->team;
        team_outlives_fork = team.end_threads != nullptr && team.end_threads();
      },
      nullptr,
      // The child has neither the workers nor the other threads of the parent, so what they held or counted is dropped.
      [] {
        Impl*& impl = instance().impl_;
        auto* fresh = new Impl(impl->wanted.load(std::memory_order_relaxed));
        fresh->replays.store(replays_of_this_thread, std::memory_order_relaxed);
        if (team_outlives_fork) fresh->team = impl->team;
        impl = fresh;
      });
}

WorkerPool& WorkerPool::instance() {
  static auto* pool = new WorkerPool;
  return *pool;
}

int32_t WorkerPool::size() const { return impl_->wanted.load(std::memory_order_relaxed); }

void WorkerPool::set_size(int32_t threads) {
  if (environment().threads > 0) return;
  impl_->wanted.store(std::clamp(threads, 1, std::min(processors(), kMaxThreads)), std::memory_order_relaxed);
}

void WorkerPool::set_team(Team team) { impl_->team = team; }

void WorkerPool::parallel_for(int64_t begin, int64_t end, int64_t grain, RangeBody body, void* arg) {
  if (begin >= end) return;
  Impl& impl = *impl_;
  const int32_t threads = size();
  const int64_t most = std::min<int64_t>(kRangesPerThread * threads, (end - begin) / std::max<int64_t>(grain, 1));
  if (threads == 1 || most <= 1 || inside_region || impl.in_use.test_and_set(std::memory_order_acquire)) {
    if (Crew* crew = Crew::own(); crew != nullptr) [[unlikely]]
      return crew->parallel_for(begin, end, grain, body, arg);
    body(arg, begin, end);
    return;
  }
  if (impl.workers.load(std::memory_order_relaxed) < threads - 1) impl.start_workers();
  const int64_t length = (end - begin + most - 1) / most;
  const auto ranges = static_cast<uint32_t>((end - begin + length - 1) / length);
  const uint64_t number = impl.regions.load(std::memory_order_relaxed) + 1;
  impl.regions.store(number, std::memory_order_relaxed);
  impl.run({body, arg, begin, end, length, fp_control(), number}, ranges);
  impl.in_use.clear(std::memory_order_release);
}

void WorkerPool::with_team(void (*body)(void* arg), void* arg) {
  struct Session {
    Impl& impl;
    void (*body)(void*);
    void* arg;
    std::atomic<bool> over{false};
  };
  Impl& impl = *impl_;
  const int32_t threads = size();
  if (impl.team.run == nullptr || threads == 1 || inside_region || impl.standing_by.exchange(true)) return body(arg);
  if (impl.workers.load(std::memory_order_relaxed) < threads - 1) impl.start_workers();
  Session session{impl, body, arg};
  const auto take_part = [](void* opaque) {
    auto& own = *static_cast<Session*>(opaque);
    if (own.impl.team.thread() != 0) return own.impl.serve(own.over);
    own.body(own.arg);
    own.impl.standing_by.store(false);
    // Ordered against the count of parked workers, as the ticket of a region is.
    own.over.store(true, std::memory_order_seq_cst);
    if (own.impl.parked.load(std::memory_order_seq_cst) > 0) own.impl.wake();
  };
  impl.team.run(take_part, &session, threads);
}

// Makes threads of a region members of crews. `place` numbers the members of all crews, from the leader of the first
// one.
class Crews {
 public:
  Crews(std::span<const int32_t> sizes, void (*body)(void* arg, size_t crew), void* arg) : body_(body), arg_(arg) {
    for (const int32_t size : sizes) {
      for (int32_t rank = 0; rank < size; ++rank) seats_.push_back({crews_.size(), rank});
      crews_.push_back(std::make_unique<Crew>(size));
    }
  }

  int32_t seats() const { return static_cast<int32_t>(seats_.size()); }
  bool ran() const { return ran_.load(std::memory_order_relaxed); }

  void take(int32_t place, int32_t id) {
    if (place >= seats()) return;
    const TeamMember member;
    if (member.own_fp_control() != fp_control_) set_fp_control(fp_control_);
    ran_.store(true, std::memory_order_relaxed);
    const auto [crew, rank] = seats_[place];
    if (rank > 0) return crews_[crew]->help(rank, id);
    Lead lead{*this, crew};
    crews_[crew]->lead(id, [](void* opaque) { static_cast<Lead*>(opaque)->run(); }, &lead);
  }

 private:
  struct Lead {
    Crews& crews;
    size_t crew;
    void run() const { crews.body_(crews.arg_, crew); }
  };
  struct Seat {
    size_t crew;
    int32_t rank;
  };
  void (*const body_)(void* arg, size_t crew);
  void* const arg_;
  const uint64_t fp_control_ = fp_control();
  std::vector<std::unique_ptr<Crew>> crews_;
  std::vector<Seat> seats_;
  std::atomic<bool> ran_{false};
};

bool WorkerPool::run_crews(std::span<const int32_t> sizes, void (*body)(void* arg, size_t crew), void* arg) {
  Impl& impl = *impl_;
  Crews crews(sizes, body, arg);
  const int32_t threads = crews.seats();
  if (threads > size() || inside_region || impl.in_use.test_and_set(std::memory_order_acquire)) return false;
  if (impl.workers.load(std::memory_order_relaxed) < threads - 1) impl.start_workers();
  const bool has_team = impl.team.run != nullptr;
  if (has_team && impl.team.count != nullptr && !impl.standing_by.load(std::memory_order_relaxed)) {
    struct Session {
      Crews& crews;
      const Team& team;
    } session{crews, impl.team};
    const auto take_part = [](void* opaque) {
      const auto& [all, team] = *static_cast<Session*>(opaque);
      if (team.count() >= all.seats()) all.take(team.thread(), team.thread());
    };
    impl.team.run(take_part, &session, static_cast<uint32_t>(threads));
  } else if (!has_team && impl.workers.load(std::memory_order_relaxed) >= threads - 1) {
    const auto take = [](void* opaque, int64_t place, int64_t) {
      static_cast<Crews*>(opaque)->take(static_cast<int32_t>(place), id_of_this_thread);
    };
    impl.run({take, &crews, 0, threads, 1, fp_control(), 0}, static_cast<uint32_t>(threads));
  }
  impl.in_use.clear(std::memory_order_release);
  return crews.ran();
}

void WorkerPool::run_alone(void (*body)(void* arg), void* arg) {
  const bool was_inside = std::exchange(inside_region, true);
  body(arg);
  inside_region = was_inside;
}

void WorkerPool::begin_replay() {
  ++replays_of_this_thread;
  impl_->replays.fetch_add(1, std::memory_order_relaxed);
}

void WorkerPool::end_replay() {
  --replays_of_this_thread;
  impl_->replays.fetch_sub(1, std::memory_order_relaxed);
}

uint64_t WorkerPool::regions() const {
  const Crew* crew = Crew::own();
  return crew != nullptr ? crew->regions() : impl_->regions.load(std::memory_order_relaxed);
}

std::vector<int32_t> WorkerPool::workers_since(uint64_t regions) const {
  if (const Crew* crew = Crew::own(); crew != nullptr) return crew->workers_since(regions);
  std::vector<int32_t> ids{0};
  for (int32_t id = 1; id <= impl_->workers.load(std::memory_order_relaxed); ++id) {
    if (impl_->presence[id].region.load(std::memory_order_relaxed) > regions) ids.push_back(id);
  }
  return ids;
}

}  // namespace npugraph::runtime
