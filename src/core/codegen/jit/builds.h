// SPDX-License-Identifier: Apache-2.0
// What a thread's requests for code make: counts, and exceptions from the usual way.
#pragma once

#include <cstdint>

namespace npugraph::codegen {

// Counts the code that was not in the process yet: pieces that LLVM had to make (kernel_builds, kernel_build_ns), and
// pieces that were read from disk (kernel_loads). They are counted for the process and for the innermost BuildCount of
// the thread that asked for the code.
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

// Exceptions from the usual way in which the code that a thread asks for is made.
struct BuildRules {
  bool reads_disk = true;  // reads code from disk, and keeps code there that was made
  // Only one of all processes that share the disk makes a piece of code; the others wait for it.
  bool one_builder = false;
};

// Sets the rules of this thread until the end of the scope. Those of the innermost scope apply.
class WithBuildRules {
 public:
  explicit WithBuildRules(BuildRules rules);
  ~WithBuildRules();
  WithBuildRules(const WithBuildRules&) = delete;
  WithBuildRules& operator=(const WithBuildRules&) = delete;

 private:
  const BuildRules before_;
};

const BuildRules& build_rules();

}  // namespace npugraph::codegen
