// SPDX-License-Identifier: Apache-2.0
#include "backend/bridge/torch_team.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace npugraph::bridge {
namespace {

// Entry points that GNU's and LLVM's OpenMP share. They are looked up, not linked: a second OpenMP in the process would
// bring the second pool of threads that this is to avoid.
using GompParallel = void (*)(void (*body)(void*), void* arg, unsigned threads, unsigned flags);
using ThreadNumber = int (*)();
using PauseAll = int (*)(int kind);
constexpr int kPauseSoft = 1;  // omp_pause_soft

GompParallel gomp_parallel() {
  static const auto found = reinterpret_cast<GompParallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  return found;
}

ThreadNumber thread_number() {
  static const auto found = reinterpret_cast<ThreadNumber>(dlsym(RTLD_DEFAULT, "omp_get_thread_num"));
  return found;
}

ThreadNumber thread_count() {
  static const auto found = reinterpret_cast<ThreadNumber>(dlsym(RTLD_DEFAULT, "omp_get_num_threads"));
  return found;
}

// Null for LLVM's OpenMP, which mends its teams in the child itself, and may hold its locks when a fork is prepared.
PauseAll pause_all() {
  static const auto found = dlsym(RTLD_DEFAULT, "__kmpc_fork_call") != nullptr
                                ? nullptr
                                : reinterpret_cast<PauseAll>(dlsym(RTLD_DEFAULT, "omp_pause_resource_all"));
  return found;
}

}  // namespace

runtime::Team torch_team() {
#if AT_PARALLEL_OPENMP
  if (gomp_parallel() != nullptr && thread_number() != nullptr && thread_count() != nullptr) {
    return {[](void (*body)(void*), void* arg, uint32_t threads) { gomp_parallel()(body, arg, threads, 0); },
            [] { return thread_number()(); }, [] { return thread_count()(); },
            [] { return pause_all() != nullptr && pause_all()(kPauseSoft) == 0; }};
  }
#endif
  return {};
}

}  // namespace npugraph::bridge
