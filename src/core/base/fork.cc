// SPDX-License-Identifier: Apache-2.0
#include "base/fork.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include <pthread.h>

namespace npugraph {
namespace {

struct State {
  std::atomic<uint64_t> generation{0};
  std::thread::id survivor;  // written only while the process has one thread
  std::mutex mutex;
  std::vector<std::pair<int, std::mutex*>> held;  // in rising order of rank
};

State& state();

void before_fork() {
  state().mutex.lock();
  for (const auto& [rank, mutex] : state().held) mutex->lock();
}

void unlock_all() {
  for (const auto& [rank, mutex] : state().held) mutex->unlock();
  state().mutex.unlock();
}

void in_child() {
  state().survivor = std::this_thread::get_id();
  state().generation.fetch_add(1, std::memory_order_relaxed);
  unlock_all();
}

State& state() {
  static State* const instance = [] {
    pthread_atfork(before_fork, unlock_all, in_child);
    return new State;  // never destroyed: threads may outlive static destruction
  }();
  return *instance;
}

}  // namespace

uint64_t fork_generation() { return state().generation.load(std::memory_order_relaxed); }

std::thread::id thread_that_forked() { return state().survivor; }

HeldAcrossFork::HeldAcrossFork(std::mutex& mutex, int rank) : mutex_(mutex) {
  const std::lock_guard lock(state().mutex);
  auto& held = state().held;
  held.insert(std::ranges::upper_bound(held, rank, {}, [](const auto& entry) { return entry.first; }), {rank, &mutex});
}

HeldAcrossFork::~HeldAcrossFork() {
  const std::lock_guard lock(state().mutex);
  std::erase_if(state().held, [&](const auto& entry) { return entry.second == &mutex_; });
}

}  // namespace npugraph
