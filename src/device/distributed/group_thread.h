// SPDX-License-Identifier: Apache-2.0
// Threads of a process group that work beside its callers.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace npugraph::distributed {

// A thread that runs jobs in the order of run(), like a stream of a device. Jobs and the objects that they hold may
// need the GIL, also to be destroyed: drain() must be called before the interpreter ends
// (ProcessGroupHccl::shutdown_all). Thread-safe.
class GroupThread {
 public:
  using Job = std::function<void()>;  // throws nothing

  GroupThread();
  // Waits until all jobs have run, unless the last job destroys the thread itself.
  ~GroupThread();
  void run(Job job);
  // Waits until all jobs have run. Returns at once if called by a job.
  void drain();

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Job> jobs;
    bool busy = false;
    bool closed = false;
  };
  static void serve(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

// Point-to-point transfers under way. Each has a thread that waits for it, since they end in any order. Thread-safe.
class Transfers {
 public:
  using Done = std::function<void(std::exception_ptr)>;  // throws nothing

  // Aborts the transfers under way, which then fail.
  ~Transfers() { abort(); }
  // Calls `done` when `transfer` has ended, from another thread.
  void watch(c10::intrusive_ptr<c10d::Work> transfer, Done done);
  // Aborts all transfers and waits until their threads have released what they held. That may need the GIL, and a
  // thread that requests the GIL while the interpreter ends is terminated, which no destructor survives. Called by a
  // `done`, it waits only for the others.
  void abort();

 private:
  struct Pending {
    c10::intrusive_ptr<c10d::Work> transfer;  // null when it has ended
    Done done;
    std::thread::id thread;
  };
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::list<Pending> pending;
  };
  static void wait(const std::shared_ptr<State>& state, std::list<Pending>::iterator pending);

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace npugraph::distributed
