// SPDX-License-Identifier: Apache-2.0
// Counts the code that was not in the process yet: pieces that LLVM had to make (kernel_builds, kernel_build_ns), and
// pieces that were read from disk (kernel_loads). They are counted for the process and for the innermost BuildCount of
// the thread that asked for the code.
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

// Counts one piece of code that was made in this time.
void count_build(int64_t nanoseconds);
// Counts one piece of code that was read from disk.
void count_load();

}  // namespace npugraph::codegen
