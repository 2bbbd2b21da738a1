// SPDX-License-Identifier: Apache-2.0
// How the benchmarks of kernels take times, and the threads on which they run them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "abi/task.h"
#include "base/trace.h"
#include "runtime/threads/worker_pool.h"

namespace npugraph {

inline double seconds() { return static_cast<double>(now_ns()) * 1e-9; }

// The shortest of `runs` runs of body(), each repeated to last long enough.
template <typename Body>
double best_seconds(int runs, Body body) {
  double best = 1e9;
  for (int run = 0; run < runs; ++run) {
    int calls = 0;
    const double start = seconds();
    double spent = 0;
    do {
      body();
      ++calls;
    } while ((spent = seconds() - start) < 0.004);
    best = std::min(best, spent / calls);
  }
  return best;
}

// ng_host::parallel_for on the worker pool.
inline void parallel_for(const ng_host*, int64_t begin, int64_t end, int64_t grain, runtime::RangeBody body,
                         void* arg) {
  runtime::WorkerPool::instance().parallel_for(begin, end, grain, body, arg);
}

}  // namespace npugraph
