// SPDX-License-Identifier: Apache-2.0
// What a fork leaves in the child: one thread, and the memory of the others as it was at that moment.
#pragma once

#include <cstdint>
#include <mutex>
#include <thread>

namespace npugraph {

// Forks between the first process and this one. What another generation was doing, only the thread that forked goes on doing.
uint64_t fork_generation();
// The thread of the parent that is now the child's first thread. No thread in a process that was not forked.
std::thread::id thread_that_forked();

// While it lives, `mutex` is free in the child of a fork, and what it guards is whole: the forking thread takes it around the
// fork. Mutexes are taken in rising order of `rank`: who holds one must only wait for mutexes of a higher rank, and not for
// anything that the forking thread may hold.
class HeldAcrossFork {
 public:
  HeldAcrossFork(std::mutex& mutex, int rank);
  ~HeldAcrossFork();
  HeldAcrossFork(const HeldAcrossFork&) = delete;
  HeldAcrossFork& operator=(const HeldAcrossFork&) = delete;

 private:
  std::mutex& mutex_;
};

}  // namespace npugraph
