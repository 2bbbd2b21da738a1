// SPDX-License-Identifier: Apache-2.0
// Keeps runs of a graph and changes of its memory apart. Runs are many at a time, and may begin in one thread and end
// in another.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace npugraph::ge {

// Thread-safe.
class Gate {
  struct Leave {
    void operator()(Gate* gate) const { gate->leave(); }
  };
  struct Open {
    void operator()(Gate* gate) const { gate->open(); }
  };

 public:
  // What is in the gate until it is destroyed, in any thread. Null: it is not.
  using Run = std::unique_ptr<Gate, Leave>;
  using Change = std::unique_ptr<Gate, Open>;

  // Waits while a change is going on, and for changes that wait unless `first`. Null if the gate is shut for good.
  Run enter(bool first);
  // Waits until no run is in, and for other changes; then runs wait for the end of the change. Null if the gate is shut
  // for good.
  Change close();
  // The same without waiting for runs: null if one is in.
  Change close_if_idle();
  // From now on, the functions above return null. Waits until nothing is in.
  void shut();

 private:
  void leave();
  void open();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  int64_t runs_ = 0;
  int64_t changes_ = 0;  // that wait
  bool closed_ = false;
  bool shut_ = false;
};

}  // namespace npugraph::ge
