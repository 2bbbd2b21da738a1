// SPDX-License-Identifier: Apache-2.0
// What a process group does beside its callers.
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

// A thread that runs jobs in the order in which they came, as a stream of a device does. What jobs hold may need the GIL, also
// when they have run: drain() comes before the interpreter ends (ProcessGroupHccl::shutdown_all). Thread-safe.
class Lane {
 public:
  using Job = std::function<void()>;  // throws nothing

  Lane();
  // Runs the jobs that it was given; the last job may be who destroys the lane.
  ~Lane();
  void run(Job job);
  // Waits until nothing is left to run; at once in a job.
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

  // Ends those under way, which have failed then.
  ~Transfers() { abort(); }
  // Calls `done` when `transfer` has ended, from another thread.
  void watch(c10::intrusive_ptr<c10d::Work> transfer, Done done);
  // When it returns, nothing that the transfers held is alive in their threads: it may need the GIL, and a thread that asks
  // for that while the interpreter ends is ended itself, which no destructor survives. In a `done` it waits for the others.
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
