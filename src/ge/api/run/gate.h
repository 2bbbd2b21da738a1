// SPDX-License-Identifier: Apache-2.0
// Keeps runs of a graph and changes of its memory apart. Runs are many at a time, and may begin in one thread and end in
// another.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace npugraph::ge {

// Thread-safe.
class Gate {
 public:
  // Waits while a change is going on, and for changes that wait unless `first`. False if the gate is shut for good.
  bool enter(bool first);
  void leave();
  // Waits until no run is in, and for other changes; then runs wait until open(). False if it is shut for good.
  bool close();
  void open();
  // From now on, enter() and close() return false. Waits until no run is in. False if it was shut already.
  bool shut();

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  int64_t runs_ = 0;
  int64_t changes_ = 0;  // that wait
  bool closed_ = false;
  bool shut_ = false;
};

}  // namespace npugraph::ge
