// SPDX-License-Identifier: Apache-2.0
// What LLVM had to make: counted for the process (kernel_builds, kernel_build_ns) and for the innermost BuildCount of the
// thread that asked for it.
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

 private:
  friend void count_build(int64_t nanoseconds);

  BuildCount* const outer_;
  int64_t builds_ = 0;
  int64_t nanoseconds_ = 0;
};

// One piece of code was made, in this time.
void count_build(int64_t nanoseconds);

}  // namespace npugraph::codegen
