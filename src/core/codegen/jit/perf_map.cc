// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/perf_map.h"

#include <cstdint>
#include <fstream>
#include <mutex>

#include <unistd.h>

#include "base/env.h"
#include "base/error.h"

namespace npugraph::codegen {

void note_function(std::string_view name, const void* address, size_t bytes) {
  if (!environment().perf_map) return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  // Opened for each function: a forked process writes to the file of its own number.
  std::ofstream file(cat("/tmp/perf-", getpid(), ".map"), std::ios::app);
  file << std::hex << reinterpret_cast<uintptr_t>(address) << ' ' << bytes << ' ' << name << '\n';
}

}  // namespace npugraph::codegen
