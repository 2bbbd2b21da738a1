// SPDX-License-Identifier: Apache-2.0
// Where code came from that was not in the process yet: what LLVM had to make (kernel_builds, kernel_build_ns), and what was
// read from disk (kernel_loads). Counted for the process and for the innermost BuildCount of the thread that asked for it.
#pragma once

#include <cstdint>

namespace npugraph::codegen {

class BuildCount {
 public:
  BuildCount();
  ~BuildCount();
  BuildCount(const BuildCount&) = delete;
  BuildCount& operator=(const BuildCount&) = delete;

  int64_t builds() const { return builds_; }
  int64_t nanoseconds() const { return nanoseconds_; }
  int64_t loads() const { return loads_; }

 private:
  friend void count_build(int64_t nanoseconds);
  friend void count_load();

  BuildCount* const outer_;
  int64_t builds_ = 0;
  int64_t nanoseconds_ = 0;
  int64_t loads_ = 0;
};

// One piece of code was made, in this time.
void count_build(int64_t nanoseconds);
// One piece of code was read from disk.
void count_load();

}  // namespace npugraph::codegen
