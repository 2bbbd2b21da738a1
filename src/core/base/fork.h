// SPDX-License-Identifier: Apache-2.0
// Support for fork(). The child has one thread, and the memory of the other threads as it was at the fork.
#pragma once

#include <cstdint>
#include <mutex>
#include <thread>

namespace npugraph {

// Number of forks between the first process and this one. Work that began under another number goes on only in the
// thread that forked.
uint64_t fork_generation();
// The id that the first thread of this process had in the parent. The id of no thread in a process that was not forked.
std::thread::id thread_that_forked();

// While this object lives, `mutex` is free in the child of a fork, and the data that it guards is consistent: the
// forking thread locks it around the fork. Mutexes are locked in rising order of `rank`: a thread that holds one may
// wait only for mutexes of a higher rank, and for nothing else that the forking thread may hold.
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
