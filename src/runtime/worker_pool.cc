// SPDX-License-Identifier: Apache-2.0
#include "runtime/worker_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/trace.h"
#include "runtime/fp_control.h"

namespace npugraph::runtime {
namespace {

constexpr int32_t kRangesPerThread = 4;  // so that a thread that comes late costs a quarter of its share
constexpr int32_t kMaxThreads = 1024;
// How long a worker looks for more work before it parks: within a replay, and outside of one.
constexpr int64_t kSpinInReplayNs = 100'000;
constexpr int64_t kSpinOutsideNs = 2'000;
constexpr size_t kCacheLine = 64;

void pause_cpu() {
#if defined(__x86_64__)
  _mm_pause();
#else
  asm volatile("yield");
#endif
}

int32_t processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return static_cast<int32_t>(std::thread::hardware_concurrency());
  return std::max(CPU_COUNT(&set), 1);
}

thread_local bool inside_region = false;
thread_local int32_t replays_of_this_thread = 0;

// What is to be done, in one word: how many ranges the region has, and the next one that nobody took. A range is taken by
// adding 1, so that a ticket tells at once whether it is valid, before the region is looked at.
struct Ticket {
  uint32_t ranges;
  uint32_t next;
  static Ticket of(uint64_t word) { return {static_cast<uint32_t>(word >> 32), static_cast<uint32_t>(word)}; }
  static uint64_t first_of(uint32_t ranges) { return static_cast<uint64_t>(ranges) << 32; }
  bool valid() const { return next < ranges; }
};

// A thread of the team works for the pool while one of these lives. Regions bring control words of their own.
class TeamMember {
 public:
  TeamMember() { inside_region = true; }
  ~TeamMember() {
    inside_region = false;
    if (fp_control() != own_fp_control_) set_fp_control(own_fp_control_);
  }
  TeamMember(const TeamMember&) = delete;
  TeamMember& operator=(const TeamMember&) = delete;

 private:
  const uint64_t own_fp_control_ = fp_control();
};

struct Region {
  RangeBody body;
  void* arg;
  int64_t begin;
  int64_t end;
  int64_t length;  // of each range but the last
  uint64_t fp_control;
  uint64_t number;
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

  // `region` is written only while no ticket is valid and no range is open, and read only by who holds a valid ticket.
  Region region{};
  alignas(kCacheLine) std::atomic<uint64_t> ticket{0};
  alignas(kCacheLine) std::atomic<uint32_t> done{0};
  alignas(kCacheLine) std::atomic<uint64_t> regions{0};

  std::mutex mutex;  // guards parking and the start of threads
  std::condition_variable work_came;
  std::atomic<int32_t> parked{0};

  // The last region in which each thread took part.
  struct alignas(kCacheLine) Presence {
    std::atomic<uint64_t> region{0};
  };
  std::unique_ptr<Presence[]> presence = std::make_unique<Presence[]>(kMaxThreads);
  std::atomic<int32_t> workers{0};  // that may have taken part, without the caller
};

void WorkerPool::Impl::take_ranges(int32_t id) {
  for (;;) {
    if (!Ticket::of(ticket.load(std::memory_order_relaxed)).valid()) return;
    const Ticket mine = Ticket::of(ticket.fetch_add(1, std::memory_order_acquire));
    if (!mine.valid()) return;
    presence[id].region.store(region.number, std::memory_order_relaxed);
    if (id != 0 && fp_control() != region.fp_control) set_fp_control(region.fp_control);
    const int64_t first = region.begin + mine.next * region.length;
    region.body(region.arg, first, std::min(first + region.length, region.end));
    done.fetch_add(1, std::memory_order_release);
  }
}

void WorkerPool::Impl::run(const Region& next, uint32_t ranges) {
  region = next;
  done.store(0, std::memory_order_relaxed);
  // Ordered against the count of parked workers: either they see the ticket or we see them.
  ticket.store(Ticket::first_of(ranges), std::memory_order_seq_cst);
  if (team.run != nullptr && !standing_by.load(std::memory_order_relaxed)) {
    const auto body = [](void* self) { static_cast<Impl*>(self)->take_ranges_in_team(); };
    return team.run(body, this, std::min<uint32_t>(ranges, wanted.load(std::memory_order_relaxed)));
  }
  if (parked.load(std::memory_order_seq_cst) > 0) wake();
  inside_region = true;
  take_ranges(0);
  inside_region = false;
  for (int64_t spins = 0; done.load(std::memory_order_acquire) != ranges; ++spins) {
    if (spins < 1000) {
      pause_cpu();
    } else {
      std::this_thread::yield();  // a worker lost its processor in the middle of a range
    }
  }
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
      return;  // no more threads to be had: the caller and those that exist do the work
    }
    workers.store(id, std::memory_order_relaxed);
  }
}

void WorkerPool::Impl::work(int32_t id) {
  trace::set_thread_name("npugraph worker " + std::to_string(id));
  inside_region = true;
  const std::atomic<bool> over{false};
  while (await_work(id, over)) take_ranges(id);
}

// A thread of the team, until the caller's work is over.
void WorkerPool::Impl::serve(const std::atomic<bool>& over) {
  const TeamMember member;
  const int32_t id = team.thread();
  while (await_work(id, over)) take_ranges(id);
}

bool WorkerPool::Impl::has_work(int32_t id) const {
  const bool valid = Ticket::of(ticket.load(std::memory_order_seq_cst)).valid();
  return valid && id < wanted.load(std::memory_order_relaxed);  // a pool made smaller keeps its last workers idle
}

// False when it is over instead.
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
  // The workers of the parent and its other threads are not in the child; what they held or counted is of no use there.
  pthread_atfork(nullptr, nullptr, [] {
    Impl*& impl = instance().impl_;
    auto* fresh = new Impl(impl->wanted.load(std::memory_order_relaxed));
    fresh->replays.store(replays_of_this_thread, std::memory_order_relaxed);
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

void WorkerPool::begin_replay() {
  ++replays_of_this_thread;
  impl_->replays.fetch_add(1, std::memory_order_relaxed);
}

void WorkerPool::end_replay() {
  --replays_of_this_thread;
  impl_->replays.fetch_sub(1, std::memory_order_relaxed);
}

uint64_t WorkerPool::regions() const { return impl_->regions.load(std::memory_order_relaxed); }

std::vector<int32_t> WorkerPool::workers_since(uint64_t regions) const {
  std::vector<int32_t> ids{0};
  for (int32_t id = 1; id <= impl_->workers.load(std::memory_order_relaxed); ++id) {
    if (impl_->presence[id].region.load(std::memory_order_relaxed) > regions) ids.push_back(id);
  }
  return ids;
}

}  // namespace npugraph::runtime
