// SPDX-License-Identifier: Apache-2.0
// Prints what this machine can do (limits.h) as a line of JSON.
#include <cstdio>

#include "benchmarks/cpp/limits.h"
#include "runtime/threads/worker_pool.h"

int main() {
  using namespace npugraph;
  runtime::WorkerPool& pool = runtime::WorkerPool::instance();
  pool.begin_replay();
  const Limits limits = measure_limits(target::host_target());
  pool.end_replay();
  std::printf(
      "{\"threads\": %d, \"float32\": %.4g, \"bfloat16\": %.4g, \"read\": %.4g, \"copy\": %.4g, "
      "\"copy_streaming\": %.4g}\n",
      pool.size(), limits.f32, limits.bf16, limits.read, limits.copy, limits.copy_streaming);
  return 0;
}
